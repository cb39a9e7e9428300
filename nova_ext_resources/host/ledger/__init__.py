# SPDX-License-Identifier: Apache-2.0

"""The durable record of what servers hold: a SQLite file.

* One process writes; a second one is refused.
* A transaction that returned is on the disk.
* A file of an older version is changed by a start, one of a newer version is
  refused.

* ``ledger``: the durable record of what servers hold
* ``process_lock``: keeps a second process from writing the same ledger
* ``schema``: the tables of the ledger, in each version of them
* ``snapshot``: reads a copy of the ledger, as a start would
"""
