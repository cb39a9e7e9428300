# SPDX-License-Identifier: Apache-2.0

"""Cache ways and memory bandwidth by way of Intel's RMD.

* ``api``: the REST client of RMD, with the daemon's traps handled
* ``constraints``: what RMD can never do for one server
* ``enforcer``: one workload per server
* ``grants``: which ways servers have got of RMD
* ``inventory``: what the RMD of this host manages
* ``loading``: makes clients from options
* ``shared_pool``: the servers in RMD's shared pool: one workload for all
* ``workload``: what one server asks of RMD
"""
