# SPDX-License-Identifier: Apache-2.0

"""Capacity for a future interval, without Nova.

But for ``api``, ``blazar``, ``capacity``, ``manager``, ``site``, ``store``,
``survey`` and ``webhook.sender`` all is pure.

* ``amounts``: how much there is, by zone and class, over time
* ``api``: what programs and commands do with reservations
* ``blazar``: the plugin of Blazar
* ``calendar``: capacity and bookings over time, by provider and class
* ``candidates``: the ways to spread a server over the providers of a host
* ``capacity_change``: a maintenance, an upgrade or a cut that is planned
* ``capacity_order``: what operators plan, checked as a whole
* ``capacity_plan``: the capacity of a fleet over time, as changes make it
* ``capacity``: what operators do with planned changes of capacity
* ``cause``: why a reservation has changed
* ``chart``: reservations over time, as rows of bars
* ``choice``: which slot of its reservation a server gets
* ``column``: what is promised of one class of one provider
* ``counter_offer``: a refusal in words
* ``cuts``: what planned changes take away, and when
* ``due``: the state that a reservation should have by now
* ``errors``: what quotas, limits, changes of capacity, and subscriptions raise
* ``event``: what has happened, as receivers are told of it
* ``expiry``: what is left of what was not used in time
* ``figures``: how much is promised, taken and lent now
* ``flavor``: a flavor of Nova
* ``fleets``: the hosts of a cloud, and all that is booked on them
* ``forecast``: how much of a class a provider will have
* ``future``: what is there at any second of an interval, as one view
* ``host``: one host, as it is without anything that is planned
* ``index``: which of many hosts may have room
* ``interval``: half-open intervals, exact to the second
* ``lack``: who has too little of what is promised
* ``lending``: the rule on what is lent, and which servers must give it back
  first
* ``limits``: how far ahead, and for how long, may be reserved
* ``manager``: carries out what time brings
* ``needs``: what servers of an order need, by its flavor or its amounts
* ``nova_server``: a server of Nova, and how it leaves its host
* ``order``: what people ask for, checked as a whole
* ``outage``: what a reservation loses with its hosts
* ``owed``: what must be left beside what servers hold
* ``packing``: the servers of one request, put on hosts for one interval
* ``plan_request``: servers of one flavor for one time
* ``planned_server``: one server that is planned
* ``planner``: which hosts serve a request and when, or a counter-offer
* ``profile``: a number that changes at known times
* ``promise_ledger``: what is promised where and when, and who has taken what
* ``publication``: what a host has told Nova of its units
* ``published``: a host with the units that it has published
* ``quota``: how many unit-hours a project may reserve
* ``room``: what one host can take in one interval, server by server
* ``runs``: whether slots that need units side by side still find them
* ``server_demand``: what one server of a flavor needs
* ``shortfalls``: what is short on each host for a server
* ``site``: the cloud around: its hosts, flavors and zones
* ``spare``: what is free and promised to nobody until a server ends
* ``starts``: from which times on the amounts of a request would do
* ``state``: the states of a reservation, and which may follow which
* ``stays``: who has which units of one place when, and who will
* ``steadiness``: whether a clock can be trusted
* ``store``: reservations in a database, exact when several ask at once
* ``subscription``: who wants to be told of what, and where
* ``survey``: the hosts of a site as they were read, and what plans on them
* ``times``: times and durations as people write them
* ``waiting``: servers that wait for their reservation, shelved
* ``way``: which reservations make way for a change of capacity
* ``webhook``: sends notifications to URLs that others have chosen
"""
