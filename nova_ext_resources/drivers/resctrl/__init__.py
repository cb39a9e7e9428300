# SPDX-License-Identifier: Apache-2.0

"""Cache ways and memory bandwidth by way of the kernel's resctrl.

* ``enforcer``: one control group per server, or a place in the shared pool
* ``inventory``: what this host can allocate
* ``kernel``: reads and changes what the kernel shows
* ``members``: which threads are in which group
* ``policy``: decides what each control group gets; pure
* ``search``: finds servers for a change, and asks the hypervisor before it
* ``writer``: the only one that changes control groups, step by step
"""
