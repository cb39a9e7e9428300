# SPDX-License-Identifier: Apache-2.0

"""What of Nova's scheduler manager and claims is wrapped.

``scheduler/reservation/inventory_snapshot`` adds a periodic task of its own.

* ``claim_hook``: Nova's claim, with what is asked before it and looked at
  again after it
* ``request_context``: what Nova knows of a request, and does not hand to
  filters
"""
