# SPDX-License-Identifier: Apache-2.0

"""Nova's virt drivers with extended resources.

* A guest starts only when its resources are claimed and applied; the threads
  of a floating server that arrives live follow at once.
* A refused claim becomes an error that Nova knows, and an event of the server.
* Where nothing is enabled, and nothing is left from before, Nova's own driver
  runs.

* ``claims``: claims, applies and releases for Nova's instances
* ``compute_node``: the compute node of a driver that has not started yet
* ``errors``: which of Nova's errors each of ours becomes
* ``events``: reports refusals to the owner of a server
* ``fake``: Nova's fake driver with extended resources
* ``hostdevs``: writes devices into the guests of Nova's libvirt driver
* ``incoming_guests``: applies when a guest that is migrated live starts
* ``libvirt``: Nova's libvirt driver; applies resources wherever a guest starts
* ``live_migration``: the driver's methods for live migrations, on source and
  destination; also what they undo when one fails
* ``live_migration_checks``: what the destination refuses before the transfer,
  and how Nova hears of the refusal
* ``mixin``: the driver's methods that start, change or end a guest where it is
* ``moves``: the driver's methods for resizes and cold migrations, on source
  and destination: which step of an entry each method takes; the
  destination claims in ``virt/hooks/resource_tracker``
* ``operations``: from the call of a method to what Nova does with a server
* ``request``: what one of Nova's instances requests
"""
