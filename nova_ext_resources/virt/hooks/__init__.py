# SPDX-License-Identifier: Apache-2.0

"""What of Nova's resource tracker is replaced or wrapped for claims.

``provider_config/old_inventory`` wraps its update of the inventory.

* ``numa_choice``: has Nova choose CPUs near the units of a server
* ``resource_tracker``: Nova's own claims for moves, and ours together with
  them
"""
