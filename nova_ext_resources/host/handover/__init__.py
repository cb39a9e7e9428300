# SPDX-License-Identifier: Apache-2.0

"""Moves what servers hold from one backend to another while they run.

* ``errors``: what a hand-over raises
* ``journal``: the progress of a hand-over: a file beside the ledger
* ``plan``: which units servers get at the new backend
* ``run``: carries it out, and can be killed at any line
"""
