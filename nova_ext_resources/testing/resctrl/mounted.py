# SPDX-License-Identifier: Apache-2.0

"""A model that another process has mounted."""

import json
import os
import subprocess
import sys
import tempfile
from typing import IO

from nova_ext_resources.testing.resctrl import fuse
from nova_ext_resources.testing.resctrl import remote
from nova_ext_resources.testing.resctrl import shape as shape_mod
from nova_ext_resources.testing import unmount

#: Seconds until it must have ended.
PATIENCE = 10.0

_COMMAND = (sys.executable, '-m', 'nova_ext_resources.testing.resctrl')


class Process:
    """Runs the command line, and talks to it.

    :ivar kernel: to look behind the scenes and to interfere
    """

    def __init__(
        self,
        shape: shape_mod.Shape,
        path: str,
        *,
        tasks: str = 'made-up',
        sysfs: str | None = None,
    ) -> None:
        self._shape = shape
        self._path = path
        self._options = ['--mount', path, '--tasks', tasks, '--control']
        if sysfs:
            self._options += ['--sysfs', sysfs]
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Mount it; it can be used when this returns.

        :raises fuse.Unavailable: it cannot be
        """
        errors = tempfile.TemporaryFile('w+')
        with tempfile.NamedTemporaryFile('w', suffix='.json') as described:
            json.dump(self._shape.to_dict(), described)
            described.flush()
            process = subprocess.Popen(  # noqa: S603
                [*_COMMAND, '--shape', described.name, *self._options],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
            assert process.stdin and process.stdout
            self._process = process
            is_ready = process.stdout.readline()
        self._errors: IO[str] = errors
        if not is_ready:
            process.wait(PATIENCE)
            errors.seek(0)
            raise fuse.Unavailable(errors.read().strip())
        self.kernel = remote.RemoteInterference(process.stdin, process.stdout)

    def stop(self) -> None:
        """Unmount it, whatever state it is in."""
        process = self._process
        if process is None:
            return
        assert process.stdin and process.stdout
        # It ends with its input.
        process.stdin.close()
        try:
            process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        self._errors.close()
        if os.path.ismount(self._path) or not _is_there(self._path):
            unmount.unmount(self._path)


def _is_there(path: str) -> bool:
    # A mount whose process died answers ENOTCONN, and is no mount then.
    try:
        os.stat(path)
    except OSError:
        return False
    return True
