# SPDX-License-Identifier: Apache-2.0

"""Carries out what time brings to the reservations.

Nothing that is promised depends on it: promises are in the tables, and are
judged by the clock. Any number of managers may run at once, may be killed at
any moment, or may not run at all.

* ``loop``: one pass after the other, until a signal comes
* ``signals``: waits for time or a signal, whichever comes first
* ``systemd``: reports to systemd
* ``turn``: one pass over all reservations
* ``watch``: reads the clock, and judges it
"""
