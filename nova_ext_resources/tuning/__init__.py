# SPDX-License-Identifier: Apache-2.0

"""Moves units between running servers by what is measured.

* ``audit``: the audit trail: one JSON object per change
* ``controller``: decides each round's steps, those that undo one too; pure
* ``history``: what the controller remembers from round to round; pure
* ``level``: how much a server waits, and what that means for its speed; pure
* ``loop``: measure, decide, act, record
* ``pressure``: how much a server needs more, from what is measured; pure
* ``steps``: which units go from one server to another; values
* ``target``: what the tuner reads and changes of a host
* ``trials``: judges a step, makes the one that undoes it, and learns; pure
"""
