# SPDX-License-Identifier: Apache-2.0

"""Nova's own functional tests, with our drivers in place of Nova's.

Nova's wheel brings them. ``sh tools/tox -e nova-suite`` runs them with nothing
enabled, where they must give what they give with Nova's drivers;
``nova-suite-counted`` with one counted resource on each host, and
``nova-suite-alone`` with Nova's drivers.

* ``drivers``: replaces Nova's drivers
* ``skips``: tests that are not run, and why
* ``test_nova``: has stestr find Nova's tests
"""

import os

# Before anything else of Nova: its services run native threads.
os.environ.setdefault('OS_NOVA_DISABLE_EVENTLET_PATCHING', '1')

from nova import monkey_patch

monkey_patch.patch()
