# SPDX-License-Identifier: Apache-2.0

"""Writes what of the provider tree of a host differs.

* Only a provider that differs is written.
* A provider with allocations is never deleted; its inventory stays.

* ``bare_metal``: publishes below Nova's compute nodes of ironic
* ``desired``: what a provider shall be, given what placement has of it; pure
* ``diff``: the writes to each provider as values: what of the tree is written,
  deleted, or kept while held; pure
* ``plan_text``: what would be written, in words; pure
* ``provider_tree_cache``: reads of the tree what has changed, and remembers
  the rest, also in a file
* ``provider_writer``: writes traits, aggregates or inventories of a provider
* ``publisher``: the thread that keeps a host's tree current
* ``root_inventory``: which classes a compute node itself offers
* ``tree_writer``: writes what of the tree differs
"""
