# SPDX-License-Identifier: Apache-2.0

"""Sends notifications to URLs that others have chosen.

Whoever subscribes has this cloud send requests, from a place that reaches more
than a user does. So what may be reached is bounded.

* ``rules``: which URLs and addresses may be reached
* ``sender``: sends one notification, in bounded time
* ``signature``: by which a receiver knows the sender
"""
