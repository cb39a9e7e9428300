# SPDX-License-Identifier: Apache-2.0

"""Compares ledger, host, placement and Nova, and repairs what differs.

* Nothing is released on a doubt: while Nova or the hypervisor does not answer,
  no server is gone. Only the first comparison after a start releases what both
  lack; later, a record of Nova must prove it.
* What the host itself shows is repaired at once; what only placement shows
  must last. What is released is compared once more under the lock of its
  server.
* What only an operator can decide becomes an alarm.

* ``absent_servers``: finds entries of servers that are nowhere, at run time
* ``allocation_swap``: finds a server that can exchange its allocation with
  another
* ``ended_migrations``: ends what moves have left, when Nova has ended them
  elsewhere
* ``incomplete_entries``: finds entries with less than their servers request
* ``migration_lookup``: asks Nova which consumers are migrations of servers
* ``missing_allocations``: finds what servers hold and placement has not
  allocated
* ``orphaned_entries``: finds entries of servers that have been missing for
  long, and releases them where an option says so
* ``rebuild_entries``: makes entries anew of servers that the ledger has lost
* ``repair``: acts on what an audit finds, and remembers what was lost lately
* ``rules``: decides what differs; pure
* ``running_guests``: which guests run, asked of the hypervisor with a limit of
  time
* ``stale_allocations``: finds what placement has allocated to consumers
  without an entry
"""
