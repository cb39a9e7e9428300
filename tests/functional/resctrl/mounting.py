# SPDX-License-Identifier: Apache-2.0

"""Whether this machine lets these tests mount anything with FUSE."""

import functools
import subprocess
import sys
import tempfile
from typing import Any
import unittest

from nova_ext_resources.testing import resctrl
from nova_ext_resources.testing.resctrl import fuse
from tests import machines
from tests.unit.host import with_resctrl

# None of our own code: where that is broken, the tests must fail, not skip.
_MOUNT = """
import os, signal, sys
import mfusepy

class Empty(mfusepy.Operations):
    def init(self, path):
        print('mounted', flush=True)
        os.kill(os.getpid(), signal.SIGTERM)

mfusepy.FUSE(Empty(), sys.argv[1], foreground=True, nothreads=True)
"""

#: Seconds for it to come and go.
_PATIENCE = 60


@functools.cache
def find_obstacle() -> str:
    """Explain why nothing can be mounted here; empty when it can."""
    try:
        fuse.load()
    except fuse.Unavailable as err:
        return str(err)
    with tempfile.TemporaryDirectory() as folder:
        tried = subprocess.run(
            [sys.executable, '-W', 'ignore', '-c', _MOUNT, folder],
            capture_output=True,
            text=True,
            check=False,
            timeout=_PATIENCE,
        )
    if 'mounted' in tried.stdout:
        return ''
    # What libfuse says, then the Python that gave up on it.
    reason = (tried.stderr.strip() or 'no reason given').splitlines()[0]
    return (
        f'FUSE cannot mount here: {reason}. It takes {fuse.DEVICE}, and root '
        'or fusermount3 of the package fuse3; in a container, CAP_SYS_ADMIN'
    )


def require() -> None:
    """Call it before the first mount of a test.

    The failed mount itself is no sign of it: a model that does not start is
    to fail its tests.

    :raises unittest.SkipTest: nothing can be mounted here
    """
    obstacle = find_obstacle()
    if obstacle:
        raise unittest.SkipTest(obstacle)


def make(shape: str | resctrl.Shape, **options: Any) -> Any:
    """Return a fixture that mounts a machine, see :mod:`tests.machines`.

    :raises unittest.SkipTest: nothing can be mounted here
    """
    if not machines.is_kernel():
        require()
    return machines.make(shape, fuse=True, **options)


class MountedTestCase(with_resctrl.ResctrlHostTestCase):
    """Has a machine that is mounted."""

    def make_machine(self) -> resctrl.ResctrlFixture:
        machine: resctrl.ResctrlFixture = self.useFixture(
            make(self.SHAPE, tasks=self.TASKS)
        )
        return machine

    def load_resctrl(self, namespace: str, **options: Any) -> dict[str, Any]:
        """Load it as a service does: it finds the mount by its path."""
        return self.load(
            namespace,
            'resctrl',
            path=self.machine.path,
            cpu_path=self.machine.cpu_path,
            **options,
        )
