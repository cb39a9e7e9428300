# SPDX-License-Identifier: Apache-2.0

"""Reservations in a database: what is promised is exact, and stays so.

* ``database``: transactions, and errors of this package for its errors
* ``migrations``: makes the tables of each version from those before it
* ``schema``: brings the tables up to date
* ``shards``: revisions, by which a change sees that it comes too late
* ``tables``: the tables as they are now
"""
