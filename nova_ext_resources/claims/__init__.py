# SPDX-License-Identifier: Apache-2.0

"""Decides whether and how a server fits on a host. Pure: no I/O, no Nova.

The life of a claim on its host is in ``host/claims``.

* ``base``: the ABCs of trackers and claim tests
* ``checks``: the claim tests in the box, a module each
* ``constraints``: what a host can never do, compared with a request
* ``decide``: the decision: what is taken, or every shortfall
* ``extra_specs``: reads extra specs; trackers and enforcers declare the keys
* ``lease``: how long a server uses what it has
* ``relocation``: which providers get what consumers hold on the compute node
* ``schedule``: orders allocation candidates by the same decision
* ``siblings``: which other providers of the host may serve as well
* ``spread``: what pinned servers get in several cache domains
* ``trackers``: how units are counted and given out, a module each
"""
