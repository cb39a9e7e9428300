# SPDX-License-Identifier: Apache-2.0

"""Kills real nova-computes at every durable step, and compares what is left.

``python -m tests.crash``; see "Crashes" in the contributors' pages. The
files:

* ``agreement``: whether ledger, placement, RMD, Nova and flavors agree
* ``allocations``: whether placement and a host agree, and what Nova left there
* ``at_random``: kills at random steps of a random mix of operations
* ``bus``: a message bus between processes
* ``compute``: one nova-compute, in a process of its own
* ``database``: takes Nova's databases away
* ``every_step``: kills at each step of each operation
* ``guests``: guests that outlive their nova-compute
* ``history``: what there is of a server, for the reader of a failure
* ``messaging``: has oslo.messaging use the bus
* ``misallocations``: what Nova has allocated otherwise than a host holds it
* ``novas``: what Nova has left to a consumer
* ``nursery``: starts nova-computes fast
* ``operations``: the operations of Nova
* ``outages``: what goes away and comes back
* ``patience``: how long anything is waited for
* ``placement``: what placement says of providers and consumers
* ``process``: the process of a nova-compute, from outside
* ``promises``: whether each promise is kept where no rule explains a state
* ``records``: what Nova's database says of servers and moves
* ``report``: prints what came of each kill
* ``seen``: what is compared of a host
* ``site``: two hosts, and all that outlives their nova-computes
* ``steps``: what is durable, and the kill at it
"""
