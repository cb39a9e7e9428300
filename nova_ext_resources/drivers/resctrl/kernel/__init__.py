# SPDX-License-Identifier: Apache-2.0

"""What the kernel shows, and the calls that change it. Decides nothing.

A quirk of a kernel is handled in the module that reads or writes that file,
never above. ``testing/resctrl`` shows the same quirk, or a row of
``dev/kernel/differences`` says why the model does not.

* ``counters``: occupancy and traffic, as the kernel counts them
* ``errors``: what can go wrong between this package and resctrl
* ``file_system``: opens, locks and lists files of resctrl; tests replace it
* ``group_files``: reads and changes control groups
* ``groups``: control groups as values
* ``info``: what the kernel says of the hardware, below ``info/``
* ``mon_groups``: monitoring groups
* ``privsep``: the writes that need privileges
* ``schemata``: the text of a ``schemata`` file, and what it means
* ``system``: the system calls of a change, and the check before them
* ``tasks``: the threads in a group: moved, read, compared
* ``topology``: which CPUs use which cache, from sysfs
"""
