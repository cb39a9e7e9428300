# SPDX-License-Identifier: Apache-2.0

"""Cache ways and memory bandwidth by way of the kernel's resctrl.

* ``enforcer``: one control group per server, or a place in the shared pool
* ``guest``: which processes and threads are a server's
* ``inventory``: what this host can allocate
* ``kernel``: reads and changes what the kernel shows
* ``policy``: decides what each control group gets; pure
* ``task_membership``: which threads are in which group
* ``writer``: the only one that changes control groups, step by step
"""
