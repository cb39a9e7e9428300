# SPDX-License-Identifier: Apache-2.0

"""What operators see of a cloud. Pure: the commands read it, and print it.

* ``aggregates``: which hosts Nova leaves out because of host aggregates
* ``audit``: what is wrong between placement and Nova, in the whole cloud
* ``fit``: whether a server fits on a host, and what is short where
* ``flavor_request``: what a flavor requests, and what is wrong with it
* ``history``: why Nova refused a server, by its actions and events
* ``legend``: how the parts of a resource are drawn that no server has
* ``markup``: text within XML and HTML
* ``names``: what consumers of placement are, for people
* ``placing``: places servers of one request in what a host has left
* ``relocated``: which hosts still have a class on the compute node itself
* ``rows``: who has how much of each resource of a host, and which units
* ``services``: which hosts have a compute service that Nova can use
* ``simulation``: how many more servers fit, of one flavor or of several
"""
