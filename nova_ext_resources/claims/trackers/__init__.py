# SPDX-License-Identifier: Apache-2.0

"""Trackers: each knows how the units of one kind of resource are given out.

A tracker's ``ATTRIBUTES`` are the extra specs ``resource:CLASS:ATTRIBUTE``.

* ``bandwidth``: memory bandwidth of one cache domain
* ``burst_ways``: ways of the burst pool: an amount that is held, and a maximum
* ``cache_ways``: which contiguous run of ways of a cache domain a server gets:
  the rule of both backends
* ``count``: units that are all alike
* ``device``: devices with names: which of them a server gets
* ``shared_ways``: places among the servers of the shared pool
"""
