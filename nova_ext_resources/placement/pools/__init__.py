# SPDX-License-Identifier: Apache-2.0

"""Writes the sharing providers of pools, which many hosts write at a time.

Every host writes the same; the first one wins, and the others compare.

* ``desired``: what placement shall have of a shared pool; pure
* ``removal``: deletes the sharing providers that no host reaches
* ``writer``: writes the sharing providers of pools, beside other hosts
"""
