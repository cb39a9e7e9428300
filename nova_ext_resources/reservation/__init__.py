# SPDX-License-Identifier: Apache-2.0

"""Capacity for a future interval. Pure: no I/O, no clock, no Nova.

* ``calendar``: capacity and bookings over time, by provider and class
* ``index``: which of many hosts may have room
* ``interval``: half-open intervals, exact to the second
* ``profile``: a number that changes at known times
"""
