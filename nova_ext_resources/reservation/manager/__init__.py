# SPDX-License-Identifier: Apache-2.0

"""Carries out what time brings to the reservations.

Nothing that is promised depends on it: promises are in the tables, and are
judged by the clock. Any number of managers may run at once, may be killed at
any moment, or may not run at all.

* ``chores``: what the parts of a pass have in common
* ``cloud``: what is needed of the cloud around
* ``deliveries``: tells one subscriber after the other
* ``draining``: has borrowers go before what is promised begins
* ``ending``: ends reservations, and their servers
* ``expiring``: releases what was not taken in time
* ``freeing``: frees what servers have taken that are gone
* ``loop``: one pass after the other, until a signal comes
* ``outages``: moves what has lost its hosts, or degrades it
* ``promised``: what is promised soon, by host
* ``purging``: deletes what has long been over
* ``removal``: lets servers leave their hosts
* ``requests``: requests, read once for each row
* ``shortages``: notes that too little is available, or enough again
* ``sight``: whether what placement shows can be trusted
* ``signals``: waits for time or a signal, whichever comes first
* ``starting``: writes that reservations have started
* ``systemd``: reports to systemd
* ``telling``: tells subscribers what has happened
* ``turn``: one pass over all reservations
* ``watch``: reads the clock, and judges it
"""
