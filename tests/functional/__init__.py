# SPDX-License-Identifier: Apache-2.0

"""Tests with a real placement and a real Nova, on native threads."""

import os

os.environ.setdefault('OS_NOVA_DISABLE_EVENTLET_PATCHING', '1')

# Before anything else: Nova forbids eventlet from here on, and refuses to
# when another library has imported it already.
from nova import monkey_patch

monkey_patch.patch(backend='threading')
