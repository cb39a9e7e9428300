# SPDX-License-Identifier: Apache-2.0

"""What the kernel shows, and the calls that change it. Decides nothing.

* ``answers``: which guests the hypervisor has reported
* ``cgroups``: the cgroups that libvirt makes, one for each machine
* ``command_line``: whom a command line names
* ``counters``: occupancy and traffic, as the kernel counts them
* ``doubts``: why a process that names a server is not believed
* ``errors``: what can go wrong between this package and resctrl
* ``files``: the file system of resctrl: the seam that tests replace
* ``group_files``: reads and changes control groups
* ``groups``: control groups as values
* ``info``: what the kernel says of the hardware, below ``info/``
* ``mon_groups``: monitoring groups
* ``pid_files``: which process holds the lock of libvirt's pid file
* ``privsep``: the writes that need privileges
* ``processes``: which processes are a server's: the sources, their order, and
  what is believed of them
* ``procfs``: processes, from ``/proc``
* ``schemata``: the text of a ``schemata`` file, and what it means
* ``system``: the system calls of a change, and the check before them
* ``tasks``: the threads in a group: moved, read, compared
* ``threads``: which threads work for a server
* ``topology``: which CPUs use which cache, from sysfs
"""
