# SPDX-License-Identifier: Apache-2.0

"""Cache and memory bandwidth, whichever backend allocates them. Pure.

* ``classes``: resource classes, keys of providers, traits
* ``fair_share``: divides free units among servers that may have more
* ``refusals``: the errors of a full or unfit host; callers give the reason
"""
