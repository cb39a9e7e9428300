# SPDX-License-Identifier: Apache-2.0

"""The values that the rooms exchange. Frozen, without I/O.

* ``alarm``: every alarm by name; the part that finds a problem raises it
* ``assignment``: what one consumer requests here, and what it holds
* ``bitmask``: reads and writes masks and lists of CPUs as the kernel does
* ``constraints``: what a host can never do, by resource class
* ``event``: the events of this package in Nova's instance actions
* ``evidence``: what Nova and the hypervisor say of a server that may be gone
* ``foreign_data``: loads JSON and YAML of others, and reads their numbers
* ``guest``: what the hypervisor reports of a server that runs
* ``health``: the parts of a host and its alarms
* ``hold``: consumers that hold room for servers that are planned
* ``holders``: who holds which units of a host, as another such string
* ``host_tree``: a host as placement shows it, with what is left
* ``inventory``: how much of one resource class a provider has
* ``operation``: what Nova does with a server, as seen by one host
* ``pool``: storage or licences that belong to no host
* ``provider``: resource providers: as discovered, and as placement sees them
* ``requirement``: what one server requests, parsed from its flavor
* ``reserved``: what has the units that servers cannot have
* ``resource``: name, type, units and description of a resource
* ``role``: what a consumer is to a host, as Nova knows it
* ``server``: what Nova reports of a server
* ``stats``: a host's view as one string in Nova's host state
* ``tunable``: units that tuning may move between running servers
* ``view``: a host's extended resources as one value
"""
