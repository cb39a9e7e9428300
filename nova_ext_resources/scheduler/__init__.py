# SPDX-License-Identifier: Apache-2.0

"""Adapters for Nova's scheduler and API.

Whether a host fits is decided in ``claims``; which host is preferred, in
``scores``.

* ``filters``: the filter that Nova's scheduler loads
* ``request``: reads what is needed from Nova's request and host state
* ``scores``: which host is preferred: one number per host and request
* ``validators``: checks of extra specs for Nova's API
* ``weighers``: the weigher that Nova's scheduler loads
"""
