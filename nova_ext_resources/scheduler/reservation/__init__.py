# SPDX-License-Identifier: Apache-2.0

"""Keeps what is promised, and gives servers what they have reserved.

Without an answer of the database, what was read last holds; where nothing was
ever read, no server is placed.

* ``backfill_weight``: how well a server fills the time until something is
  promised
* ``commitments``: what is promised, as the database says
* ``coresidency``: which candidates a server may have beside what is promised
* ``decision_cache``: what was decided about units side by side
* ``filter``: the filter that keeps what is reserved
* ``free_capacity``: how much of a class of a provider is free now
* ``inventory_snapshot``: notes what hosts have published, for those that plan
* ``slots``: gives servers slots of their reservations
"""
