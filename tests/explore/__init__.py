# SPDX-License-Identifier: Apache-2.0

"""Walks the life of entries with all that may go wrong, breadth first.

``python -m tests.explore``; see "The life of an entry" in the contributors'
pages. The files:

* ``bugs``: bugs of the protocol that the walk has to find
* ``drawing``: draws the entry table
* ``findings``: what repair of a host finds, by the rules of the product
* ``invariants``: what holds in every state
* ``machine``: all that may happen next
* ``programs``: what Nova and repair do
* ``replay``: replays a walk on real hosts
* ``runs``: the steps of the entry table, as actions
* ``walk``: finds all states, in several processes
* ``world``: a small world, as bytes
"""
