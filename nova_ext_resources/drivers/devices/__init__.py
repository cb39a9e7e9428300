# SPDX-License-Identifier: Apache-2.0

"""What all plugins for devices of a host share; no plugin.

* ``assignments``: which devices servers hold, by the provider that they are of
* ``counted``: makes the provider of some devices
* ``device_spec``: which PCI devices Nova reports itself
* ``files``: reads files of the kernel's sysfs
* ``functions``: PCI functions that are handed to guests
"""
