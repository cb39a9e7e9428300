# SPDX-License-Identifier: Apache-2.0

"""Cache domains that exist in the configuration only, for demonstrations.

* ``inventory``: reports them
"""
