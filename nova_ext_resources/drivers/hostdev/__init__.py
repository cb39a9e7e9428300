# SPDX-License-Identifier: Apache-2.0

"""Hands the PCI functions that servers hold to their guests.

* ``enforcer``: names the functions, and makes sure that they are there
"""
