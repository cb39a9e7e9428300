# SPDX-License-Identifier: Apache-2.0

"""Adapters for Nova's scheduler and API. The decisions are in ``claims``.

* ``filters``: the filter that Nova's scheduler loads
* ``request``: reads what is needed from Nova's request and host state
* ``scores``: how good a host is for a request, as one number
* ``validators``: checks of extra specs for Nova's API
* ``weighers``: the weigher that Nova's scheduler loads
"""
