# SPDX-License-Identifier: Apache-2.0

"""Trackers: each knows how the units of one kind of resource are given out.

* ``bandwidth``: memory bandwidth of one cache domain
* ``burst_ways``: ways of the burst pool: an amount that is held, and a maximum
* ``cache_ways``: which contiguous run of ways of a cache domain a server gets
* ``count``: units that are all alike
* ``shared_ways``: places among the servers of the shared pool
"""
