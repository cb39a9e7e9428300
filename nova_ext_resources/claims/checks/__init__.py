# SPDX-License-Identifier: Apache-2.0

"""Claim tests: each finds one kind of reason why a host cannot take a server.

* ``cache_affinity``: ways lie in the cache that the server's CPUs use
* ``capacity``: enough units are free, in the form that the tracker gives out
* ``granularity``: amounts respect min_unit, max_unit, step_size and attributes
"""
