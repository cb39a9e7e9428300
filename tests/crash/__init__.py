# SPDX-License-Identifier: Apache-2.0

"""Kills real nova-computes at every durable step, and looks at the end.
"""
