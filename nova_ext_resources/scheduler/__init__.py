# SPDX-License-Identifier: Apache-2.0

"""Adapters for Nova's scheduler and API.

Whether a host fits is decided in ``claims``; what is promised, in
``reservation``; which host is preferred, in ``scores`` and
``scheduler/reservation/backfill_weight``. A host that cannot be understood
passes: nova-compute decides.

* ``filters``: the filters that Nova's scheduler loads
* ``hooks``: what of Nova's scheduler is wrapped
* ``in_flight_claims``: has requests at the same time get different hosts
* ``report``: a line of the log per refused host
* ``request``: reads what is needed from Nova's request and host state
* ``reservation``: keeps what is promised; slots of reservations
* ``scores``: which host is preferred: one number per host and request
* ``validators``: checks of extra specs for Nova's API
* ``weighers``: the weighers that Nova's scheduler loads
"""
