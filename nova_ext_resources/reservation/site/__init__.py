# SPDX-License-Identifier: Apache-2.0

"""The cloud that reservations are for, as its services report it.

* ``compute``: flavors, availability zones and servers, of the Compute API
* ``holds``: room that is held in placement for planned servers
* ``hosts``: hosts with what is left of them, of placement
* ``loading``: configuration -> what :mod:`..api` works with
* ``metrics``: a file of what is reserved, for Prometheus
"""
