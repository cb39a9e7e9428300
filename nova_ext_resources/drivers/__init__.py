# SPDX-License-Identifier: Apache-2.0

"""One folder per plugin: ``inventory`` finds resources, ``enforcer`` applies.

A new kind of device is a new folder here, with an entry point in ``setup.cfg``
and options in ``conf/drivers``. Most need an ``inventory`` only: ``hostdev``
hands PCI functions to guests, other devices need an enforcer. Each resource
class names the tracker of ``claims/trackers`` that counts its units
(``InventoryProvider.definitions``).

* ``base``: the ABCs of inventory providers and enforcers, and what they
  declare: resource classes, extra specs, options
* ``cpu``: traits for frequency and idle states of CPUs, from sysfs
* ``devices``: what plugins for devices share; no plugin
* ``fake``: cache domains that exist in the configuration only
* ``fpga``: regions of FPGAs, from sysfs
* ``hostdev``: hands the PCI functions that servers hold to their guests
* ``noop``: units are counted, and nothing on the host is touched
* ``rdt``: what ``resctrl`` and ``rmd`` share; no plugin
* ``resctrl``: cache and memory bandwidth by way of the kernel's resctrl
* ``rmd``: cache and memory bandwidth by way of Intel's RMD
* ``shared_pool``: pools of storage or licences that belong to no host
* ``sriov``: virtual functions of network cards, from sysfs
* ``static``: resources that an operator writes into a YAML file
"""
