# SPDX-License-Identifier: Apache-2.0

"""The programs that an installation brings.

* ``compute``: ``nova-compute-ext``: nova-compute from a develop install
* ``downgrade_ledger``: changes a ledger back for an older release
* ``hand_over``: ``nova-ext-resources-hand-over``: from one backend to another
"""
