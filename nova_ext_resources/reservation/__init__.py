# SPDX-License-Identifier: Apache-2.0

"""Capacity for a future interval. Pure: no I/O, no clock, no Nova.

* ``calendar``: capacity and bookings over time, by provider and class
* ``demand``: what one server of a flavor needs
* ``interval``: half-open intervals, exact to the second
* ``profile``: a number that changes at known times
"""
