# SPDX-License-Identifier: Apache-2.0

"""Cache and memory bandwidth, whichever backend allocates them. Pure.

* ``classes``: resource classes, keys of providers, traits
* ``fair_share``: divides free units among servers that may have more
* ``refusals``: the errors of a host that has no room, or never will
"""
