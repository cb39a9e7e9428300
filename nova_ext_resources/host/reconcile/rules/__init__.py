# SPDX-License-Identifier: Apache-2.0

"""Decides what differs and what has to be done. Pure.

Each takes values that others have read, and returns what follows from them.

* ``absence``: for how long entries have been without a server
* ``allocations``: compares what the ledger records with what placement has
  allocated
* ``drift``: compares ledger, host and Nova; decides which servers are gone
* ``migrations``: whose it is what a move has kept
* ``units``: finds units in the ledger that cannot be as recorded
"""
