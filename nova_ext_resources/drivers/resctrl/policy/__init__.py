# SPDX-License-Identifier: Apache-2.0

"""Decides what each control group gets. Pure.

A change goes through these in turn; each takes values and returns values:

* ``ownership``: finds out which server, pool or software has each unit
* ``choice``: keeps the ways that ``claims/trackers/cache_ways`` has chosen, or
  finds others when other software has taken them
* ``constraints``: finds requests that no host of this kind can ever fulfill
* ``pools``: divides burst ways and bandwidth between their servers
* ``shared_pool``: lists the servers in the group of the shared pool
* ``layout``: computes what every group is to have
* ``write_order``: orders the steps from what is there to that
* ``verify``: explains what a server lacks
* ``recognition``: reads the units of a server that the ledger has lost

Several of them use:

* ``bandwidth``: how much memory bandwidth each server has
* ``machine``: what a host is, besides its control groups
* ``pool``: what each server can have of a pool, and has of it
* ``regions``: where the pools of ways lie
"""
