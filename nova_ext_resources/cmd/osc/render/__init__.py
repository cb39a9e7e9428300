# SPDX-License-Identifier: Apache-2.0

"""Hosts and charts as text and pictures. Pure.

* ``chart_svg``: a chart as a picture
* ``chart_text``: a chart in the letters of a terminal
* ``host_text``: a host in the letters of a terminal
"""
