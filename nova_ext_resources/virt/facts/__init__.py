# SPDX-License-Identifier: Apache-2.0

"""What Nova says of servers, moves and consumers, as values of ``facts/``.

What Nova does not answer is unknown, and never counts as gone.

* ``consumer_roles``: what each consumer is to a host, from Nova's servers and
  migrations
* ``deletion_proof``: whether a server is certainly gone from a host
* ``migrations``: those of a host, and whether Nova goes on with them
* ``servers``: servers of a host, as Nova's database has them
"""
