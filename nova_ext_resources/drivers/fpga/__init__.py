# SPDX-License-Identifier: Apache-2.0

"""Regions of FPGAs.

* ``inventory``: one provider for each region
* ``managers``: what programs the regions of a host
* ``owners``: which regions are not ours, and why
* ``pci``: the PCI device of a card
* ``sysfs``: reads the regions as the kernel shows them
* ``traits``: what a region is, and what is programmed into it
"""
