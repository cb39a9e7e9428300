# SPDX-License-Identifier: Apache-2.0

"""Decides for the scheduler, on the views that hosts publish.

* ``candidates``: which allocation candidates of one host fit, best first
* ``consumption``: what servers of the same request have taken already
* ``pending``: what hosts were given for any request, and do not show yet
* ``unchecked``: what a host without a driver of this package cannot keep
"""
