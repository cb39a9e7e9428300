# SPDX-License-Identifier: Apache-2.0

"""Models for tests and demonstrations. Needs the extra ``testing``.

* ``cpu``: a sysfs tree with settings of CPUs
* ``fake_clock``: a clock that a test sets
* ``fpga``: a sysfs tree with FPGAs
* ``mixes``: mixes of simulated servers, of several kinds
* ``resctrl``: a model of the kernel's resctrl
* ``rmd_simulator``: a simulator of the RMD daemon
* ``sriov``: a sysfs tree with network cards
* ``sysfs``: a sysfs tree with PCI devices
* ``unmount``: unmounts what a process leaves mounted with FUSE
* ``workloads``: simulated servers, and how fast they would be
"""
