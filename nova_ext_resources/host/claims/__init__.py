# SPDX-License-Identifier: Apache-2.0

"""The life of what servers hold on this host.

* A claim is counted in memory first, so that no other gets its units, and is
  in the ledger before an enforcer applies it. A release is marked in memory
  first; memory forgets an entry only after the ledger has.
* One thread at a time takes a step of one server: under the lock of that
  server.
* The row of a release goes after the enforcers have removed what it says. What
  a move could not remove is left over, and repaired.

* ``allocation_writer``: has placement follow what the host decides
* ``enforcement``: runs the enforcers in two phases, undone on failure
* ``entry_table``: which state an entry has after each step, and the actions
  of the step; a change of what a step does begins here
* ``locks``: one lock per server
* ``manager``: decides which step a server's claim takes, under its lock
* ``memory``: entries and view in memory, under one lock
* ``recent_consumers``: remembers the last consumers that something has
  happened to
* ``transitions``: carries out the actions of each step, in ledger, host and
  memory
"""
