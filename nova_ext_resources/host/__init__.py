# SPDX-License-Identifier: Apache-2.0

"""What runs in nova-compute, or in the agent, for one host.

A plugin discovers, the ledger records, an enforcer applies, placement is told.
Nothing here imports Nova: ``virt/`` hands in what Nova says.

* ``claims``: the life of what servers hold: steps, memory, locks
* ``handover``: moves running servers from one backend to another
* ``inventory``: from what plugins discover to providers and view
* ``ledger``: the durable record of what servers hold
* ``manager``: one host: claims, discovery, repair and view together
* ``nova_compute``: what a host needs of the nova-compute in which it runs
* ``reconcile``: compares ledger, host, placement and Nova; repairs
* ``service``: starts, runs and stops all of it; health, metrics, loops
"""
