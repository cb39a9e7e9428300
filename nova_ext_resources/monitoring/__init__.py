# SPDX-License-Identifier: Apache-2.0

"""Measures running servers.

* ``exporter``: metrics and health over HTTP, for Prometheus
* ``loading``: makes what the options ask for
* ``loop``: the thread that measures, and keeps the latest sample
* ``mon_groups``: keeps a monitoring group for each server that needs one
* ``sample``: what was measured of the servers, as values
* ``sweep``: reads the counters of all servers of a host: rates, and
  frequencies of CPUs
"""
