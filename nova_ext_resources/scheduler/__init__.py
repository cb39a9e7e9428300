# SPDX-License-Identifier: Apache-2.0

"""Adapters for Nova's scheduler and API.

Whether a host fits is decided in ``claims``; what is promised, in
``reservation``; which host is preferred, in ``scores``.

* ``beside``: which candidates a server may have beside what is promised
* ``claimed``: looks again when Nova has claimed
* ``claiming``: Nova's claim, with what is asked before and after it
* ``filters``: the filters that Nova's scheduler loads
* ``free``: how much of a class of a provider is free now
* ``gaps``: how well a server fills the time until something is promised
* ``given``: has requests at the same time get different hosts
* ``noting``: notes what hosts have published, for those that plan
* ``ongoing``: what Nova knows of a request, and does not hand to filters
* ``promises``: what is promised, as the database says
* ``report``: a line of the log per refused host
* ``reservations``: the filter that keeps what is reserved
* ``reserved``: gives servers slots of their reservations
* ``request``: reads what is needed from Nova's request and host state
* ``scores``: which host is preferred: one number per host and request
* ``validators``: checks of extra specs for Nova's API
* ``verdicts``: what was decided about units side by side
* ``weighers``: the weighers that Nova's scheduler loads
"""
