# SPDX-License-Identifier: Apache-2.0

"""Accounting only: units are counted, and nothing on the host is touched.

* ``enforcer``: accepts everything
"""
