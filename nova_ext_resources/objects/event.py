# SPDX-License-Identifier: Apache-2.0

"""The events of this package in the instance actions of Nova.

Each name is followed by a colon and by the ``hostId`` of the host.
"""

CLAIM = 'ext_resources_claim'
APPLY = 'ext_resources_apply'
