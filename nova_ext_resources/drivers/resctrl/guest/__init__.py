# SPDX-License-Identifier: Apache-2.0

"""Which processes and threads are a server's. Changes nothing.

A command line counts only where the cgroup of the process, or its user, bears
it out. libvirt's pid file and cgroup count without one, if root or the user of
this process alone can change them.

* ``answers``: which guests the hypervisor has reported
* ``cgroups``: the cgroups that libvirt makes, one for each machine
* ``doubts``: why a process that names a server is not believed
* ``lookup``: finds servers for a change, and asks the hypervisor before it
* ``pid_files``: which process holds the lock of libvirt's pid file
* ``processes``: which processes are a server's: the sources, their order, and
  what is believed of them
* ``procfs``: processes, from ``/proc``
* ``threads``: which threads work for a server
"""
