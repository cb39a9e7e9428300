# SPDX-License-Identifier: Apache-2.0

"""The values that the folders of the package exchange. Frozen, without I/O.

* ``alarm``: every alarm by name; the part that finds a problem raises it
* ``assignment``: what one consumer requests here, and what it holds
* ``bitmask``: reads and writes masks and lists of CPUs as the kernel does
* ``class_inventory``: how much of one resource class a provider has
* ``documents``: values as text that others read or have written
* ``event``: the events of this package in Nova's instance actions
* ``host_constraints``: what a host can never do, by resource class
* ``host_health``: the health of a host, and of its parts, as a value
* ``host_provider``: resource providers, as found, and as placement has them
* ``host_view``: a host's extended resources as one value
* ``planned_hold``: consumers that hold room for servers that are planned
* ``pool``: storage or licences that belong to no host
* ``requirements``: what one server requests, parsed from its flavor
* ``reserved_units``: what has the units that servers cannot have
* ``resource``: name, type, units and description of a resource
* ``tunable_units``: units that tuning may move between running servers
"""
