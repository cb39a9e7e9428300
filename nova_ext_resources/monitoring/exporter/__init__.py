# SPDX-License-Identifier: Apache-2.0

"""Metrics and health over HTTP.

* ``application``: the WSGI application with its two pages
* ``collector``: the collector that ``prometheus_client`` calls at each scrape
* ``families``: from a snapshot of the host to series
* ``family``: name, help text and labels of every metric
* ``report``: health as JSON
* ``server``: the HTTP server: off by default, small, bounded
"""
