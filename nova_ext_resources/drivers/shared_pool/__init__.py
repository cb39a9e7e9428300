# SPDX-License-Identifier: Apache-2.0

"""Pools of storage or licences that belong to no host.

* ``inventory``: ties this host to its pools, and reports what they have
* ``pool_file``: from the text of the file to values; pure
* ``readers``: one thread for each pool; keeps the last good reading
* ``reading``: what the sources say, as numbers of units; pure
* ``sources``: reads ``statvfs``, ``ceph df``, a file or an URL
"""
