# SPDX-License-Identifier: Apache-2.0

"""The scenarios, a module each; the first line of ``play`` is the title.

* ``blazar``: a lease of Blazar, from an ordinary user to running servers
* ``crowd``: many servers at once, from several clients
* ``deletes``: servers that are deleted early, and some that are restored
* ``devices``: a network card, a pool, and why a server got neither
* ``devstack``: the script of the devstack job, on hosts with licences
* ``evacuation``: a host dies, and its server moves
* ``lease``: a reservation, from the command line to running servers
* ``life``: each operation on a server that stays where it is, and shelving
* ``moves``: resize, cold and live migration
* ``promise``: the acceptance tests of OPNFV Promise, with real servers
* ``quota``: cache ways of a project, limited in keystone
* ``releases``: another release of the package while servers run
* ``removal``: Nova goes on without the package
* ``request``: several servers in one request
* ``restarts``: nova-compute is killed at random moments
"""
