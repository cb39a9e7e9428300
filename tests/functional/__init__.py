# SPDX-License-Identifier: Apache-2.0

"""Tests with a real placement and a real Nova, as its computes run.

They have native threads from Nova 34 on, and are on eventlet before.
"""

import importlib.metadata
import os

# Otherwise each release chooses eventlet.
os.environ.setdefault(
    'OS_NOVA_DISABLE_EVENTLET_PATCHING',
    '1' if importlib.metadata.version('nova') >= '34' else '',
)

# Before anything else: this patches eventlet in, or forbids it from here on,
# and refuses to when another library has imported it already.
from nova import monkey_patch

monkey_patch.patch()
