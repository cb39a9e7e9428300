# SPDX-License-Identifier: Apache-2.0

"""Refuses guests with which Nova or libvirt would take what others hold.

* ``cachetune``: refuses guests whose caches libvirt would control, too
* ``cpu_pinning``: refuses guests on other CPUs than their servers have claimed
* ``cpu_power``: whether Nova may switch CPUs off
* ``pci_functions``: which PCI functions of the host a domain has, or lacks
"""
