# SPDX-License-Identifier: Apache-2.0

"""Metrics, health and a picture of the host over HTTP.

* ``application``: the WSGI application with its three pages
* ``catalogue``: name, help text and labels of every metric
* ``collector``: the collector that ``prometheus_client`` calls at each scrape
* ``page``: the picture, an HTML page with SVG
* ``series``: from a snapshot of the host to the series of every metric
* ``server``: the HTTP server: off by default, small, bounded
"""
