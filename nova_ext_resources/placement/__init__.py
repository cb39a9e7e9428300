# SPDX-License-Identifier: Apache-2.0

"""Talks to placement and keeps the provider tree there current.

* ``allocations``: changes what a server holds in placement
* ``changes``: what can happen to one provider; pure
* ``client``: one method per endpoint of the Placement API
* ``endpoint``: one request and its response
* ``errors``: from a failed request to an error of ours
* ``publisher``: the thread that keeps a host's tree current
* ``responses``: placement's JSON as values
* ``retry``: how a call to placement is repeated
* ``sync``: compares the wanted tree with the one in placement; pure
* ``tree``: reads the tree and writes what differs
"""
