# SPDX-License-Identifier: Apache-2.0

"""Talks to placement and keeps the providers there current.

* ``allocations``: changes what a server holds in placement
* ``api``: one method per endpoint of the Placement API
* ``cloud_snapshot``: reads all hosts of a cloud, by few requests
* ``pools``: writes the sharing providers of pools
* ``publish``: writes what of the tree of a host differs
"""
