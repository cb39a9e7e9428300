# SPDX-License-Identifier: Apache-2.0

"""Options of plugins, a module per group.

* ``cpu``: ``[ext_resources_cpu]``
* ``fake``: ``[ext_resources_fake]``: the simulated host
* ``fpga``: ``[ext_resources_fpga]``
* ``hostdev``: ``[ext_resources_hostdev]``
* ``resctrl``: ``[ext_resources_resctrl]``, for inventory and enforcer
* ``rmd``: ``[ext_resources_rmd]``, for inventory and enforcer
* ``shared_pool``: ``[ext_resources_shared_pool]``
* ``sriov``: ``[ext_resources_sriov]``
* ``sysfs``: the option of each plugin that reads sysfs
"""
