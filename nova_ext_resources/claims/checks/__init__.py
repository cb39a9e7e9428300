# SPDX-License-Identifier: Apache-2.0

"""Claim tests: each finds one kind of reason why a host cannot take a server.

The test also words the reason.

The host runs those that ``[ext_resources] claim_tests`` names, and publishes
the names; the scheduler runs the same ones if they are installed there.

* ``cache_affinity``: ways lie in the cache that the server's CPUs use
* ``capacity``: enough units are free, in the form that the tracker gives out
* ``granularity``: amounts respect min_unit, max_unit, step_size and attributes
* ``numa_affinity``: devices are near the server's CPUs, if its flavor says so
"""
