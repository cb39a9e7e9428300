# SPDX-License-Identifier: Apache-2.0

"""Metrics and health over HTTP.

* ``application``: the WSGI application with its two pages
* ``catalogue``: name, help text and labels of every metric
* ``collector``: the collector that ``prometheus_client`` calls at each scrape
* ``report``: health as JSON
* ``series``: from a snapshot of the host to the series of every metric
* ``server``: the HTTP server: off by default, small, bounded
"""
