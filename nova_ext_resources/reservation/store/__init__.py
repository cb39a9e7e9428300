# SPDX-License-Identifier: Apache-2.0

"""Reservations in a database: what is promised is exact, and stays so.

* ``admission``: admits requests and changes states
* ``capacity_changes``: rows of planned changes of capacity
* ``capacity``: plans changes of capacity, and moves what they hurt
* ``charges``: rows of what projects are charged for
* ``clock``: the clock of the database
* ``databases``: transactions, and errors of this package for its errors
* ``documents``: a request as JSON
* ``events``: rows of events, and their order
* ``files``: connections to a file that outlive a transaction
* ``followers``: rows of subscriptions, and how far each has been told
* ``history``: which revisions the shards have had
* ``limits``: the limits of single projects
* ``migrations``: makes the tables of each version from those before it
* ``mirror``: a planner that follows the store
* ``news``: makes events of what is in the tables
* ``notices``: rows of servers that were told to leave their hosts
* ``progress``: what is not over, and how it goes on
* ``publications``: rows of what hosts have published
* ``purge``: deletes what was released long ago
* ``quotas``: the quotas of projects
* ``reader``: follows the store by its revisions
* ``records``: reservations as they are stored, to be shown
* ``reservations``: rows of reservations
* ``retry``: how a change is repeated
* ``schema``: brings the tables up to date
* ``servers``: rows of planned servers and of what they take
* ``shards``: revisions, by which a change sees that it comes too late
* ``shrinking``: releases what was not taken in time
* ``slots``: which server of Nova has taken which planned server
* ``states``: rows of what happened to a reservation, and why
* ``staying``: servers of Nova that stay when their slots are over
* ``subscriptions``: the subscriptions of projects and of operators
* ``tables``: the tables as they are now
* ``waiting``: to which subscriptions something is to be sent
"""
