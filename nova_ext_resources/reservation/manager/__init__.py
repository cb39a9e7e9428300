# SPDX-License-Identifier: Apache-2.0

"""Carries out what time brings to the reservations.

Nothing that is promised depends on it: promises are in the tables, and are
judged by the clock. Any number of managers may run at once, may be killed at
any moment, or may not run at all.

* ``beside``: what is done beside the passes, and may take long
* ``borrowers``: finds the servers to which the rule of ``lending`` applies
* ``case``: a reservation, for whoever looks at its servers
* ``chores``: what the parts of a pass have in common
* ``cloud_services``: what is needed of the cloud around
* ``courier``: sends notifications, beside the passes
* ``cuts``: what changes of capacity take from reservations
* ``deliveries``: what is sent next to whom, and what became of it
* ``draining``: has borrowers go before what is promised begins
* ``ending``: ends reservations, and their servers
* ``expiring``: releases what was not taken in time
* ``freeing``: frees what servers have taken that are gone
* ``holding``: holds room in placement, where the scheduler does not keep it
* ``holds``: what is held there, as far as a manager knows
* ``kept``: servers that stay when their reservation is over
* ``lanes``: how many requests may be under way
* ``lateness``: what still has to go from a host
* ``loop``: one pass after the other, until a signal comes
* ``moved``: servers that are not where their place is
* ``need``: what is short on a host for what is promised there
* ``notifying``: tells subscribers what has happened
* ``outages``: moves what has lost its hosts, or degrades it
* ``owners``: tells the owners of servers that these are to leave
* ``pauses``: pauses that grow, for what is in vain
* ``promised``: what is promised soon, by host
* ``purging``: deletes what has long been over
* ``removal``: lets servers leave their hosts
* ``replaced``: what is planned on providers that are gone
* ``request_cache``: requests, each text read once
* ``rights``: whether Nova shows the servers of all projects
* ``room``: the slots that servers may still have in a pass
* ``shelving``: shelves servers that are to wait for their reservation
* ``shortages``: notes that too little is available, or enough again
* ``sight``: whether what placement shows can be trusted
* ``signals``: waits for time or a signal, whichever comes first
* ``starting``: writes that reservations have started
* ``supplies``: what placement shows where changes are planned
* ``systemd``: reports to systemd
* ``time_budget``: how long one part of a pass goes on
* ``turn``: one pass over all reservations
* ``waking``: unshelves servers that have waited for their reservation
* ``watch``: reads the clock, and judges it
"""
