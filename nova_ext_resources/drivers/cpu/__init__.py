# SPDX-License-Identifier: Apache-2.0

"""How the CPUs of a host change their frequency, and how they idle.

* ``inventory``: the traits of the compute node; it has no inventory
* ``sysfs``: reads the kernel's settings
* ``traits``: which traits they are
"""
