# SPDX-License-Identifier: Apache-2.0

"""What runs in nova-compute for one host.

* ``absent``: finds entries of servers that are nowhere, at run time
* ``agent``: a host whose nova-compute is not ours, discovered and published
* ``allocated``: finds what servers hold and placement has not allocated
* ``audit``: compares ledger, host and Nova; decides which servers are gone
* ``audit_allocations``: compares what the ledger records with what placement
  has allocated; pure
* ``audit_units``: finds units in the ledger that cannot be as recorded; pure
* ``config_files``: entries of Nova's provider configuration files that name a
  provider of this host
* ``discovery``: runs the inventory providers; a failed one's report stays
* ``enforcement``: runs the enforcers in two phases, undone on failure
* ``files``: where a host's files are that no option names
* ``following``: has placement follow what the host decides
* ``guests``: which guests run, asked of the hypervisor with a limit of time
* ``handover``: moves running servers from one backend to another
* ``health``: when each part last worked, and what is wrong now
* ``kept``: whose it is what a move has kept; pure
* ``ledger``: the durable record of what servers hold
* ``ledger_copy``: reads a copy of the ledger, as a start would
* ``ledger_guard``: keeps a second process from writing the same ledger
* ``ledger_tables``: the tables of the ledger, in each version of them
* ``lifecycle``: decides which step a server's claim takes, under its lock
* ``loading``: makes a host from options: its plugins and its ledger
* ``locks``: one lock per server
* ``metrics``: offers metrics, health and measurements of a host
* ``migrations``: asks Nova which consumers are migrations of servers
* ``missing``: for how long entries have been without a server; pure
* ``moves``: ends what moves have left, when Nova has ended them elsewhere
* ``node_traits``: which traits Nova adds to its compute node; pure
* ``nova_compute``: what a host needs of the nova-compute in which it runs
* ``old_inventory``: what the compute node itself offers of what is below it
* ``orphans``: finds entries of servers that have been missing for long, and
  releases them where an option says so
* ``partners``: finds a server that can exchange its allocation with another
* ``periodic``: the host's loop: discover, audit and repair, observe, publish;
  asks Nova now and then which servers are here
* ``preview``: the tree that a start would publish; pure
* ``provider_config``: what plugins find, as a file that Nova reads; pure
* ``recent``: remembers the last consumers that something has happened to
* ``recoveries``: remembers which servers had lost what is applied again
* ``repair``: acts on what an audit finds
* ``resources``: one host: ``lifecycle``, discovery, repair and view together
* ``restore``: makes entries anew of servers that the ledger has lost
* ``servers``: names of Nova's servers for metrics; never decides a release
* ``service``: puts all of it together; starts and stops it
* ``short``: finds entries with less than their servers request
* ``state``: entries and view in memory, under one lock
* ``telemetry``: runs monitoring and tuning
* ``transitions``: takes each step, in ledger, host and memory
* ``unheld``: finds what placement has allocated to consumers without an entry
* ``view``: from discovered resources and entries to the view and the tree
* ``withheld``: keeps from servers what vanished while a server held it
"""
