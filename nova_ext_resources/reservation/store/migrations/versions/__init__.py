# SPDX-License-Identifier: Apache-2.0

"""A module per version of the tables. What was released is not changed.

* ``v01_tables``: the first tables
* ``v02_consumers``: which servers have taken what was planned
* ``v03_quotas``: quotas of projects, and what counts against them
* ``v04_causes``: what changes are about, and who was told to leave
* ``v05_capacity_changes``: planned changes of capacity
* ``v06_subscriptions``: subscriptions, and the events that they are told of
* ``v07_limits``: limits of single projects
* ``v08_publications``: what hosts have published of their units
* ``v09_history``: which revisions the shards have had
"""
