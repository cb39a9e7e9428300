# SPDX-License-Identifier: Apache-2.0

"""Moves units between running servers by what is measured.

* ``audit``: the audit trail: one JSON object per change
* ``controller``: decides which server gets units of which other; pure
* ``history``: what the controller remembers from round to round; pure
* ``loop``: measure, decide, act, record
* ``pressure``: how much a server suffers, from what is measured; pure
* ``readings``: from samples of monitoring to readings of the tuner; pure
* ``steps``: what is moved, from which server to which; values
* ``target``: what the tuner needs of a host
* ``trials``: whether a step was worth it; pure
"""
