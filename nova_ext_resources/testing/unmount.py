# SPDX-License-Identifier: Apache-2.0

"""Unmount what a process leaves mounted with FUSE when it is killed.

A FUSE mount outlives its process, and answers ENOTCONN from then on. libfuse
can see to that by itself (``auto_unmount``), but only through ``fusermount3``,
which root does not need otherwise.
"""

from collections.abc import Iterator
import contextlib
import os
import shutil
import subprocess

#: Where packages put it. libfuse starts it by this path, whatever the PATH is.
_FUSERMOUNT = '/usr/bin/fusermount3'

#: Waits for a line of its input, which says that all is well, or for the end
#: of it: then nobody is left to say so. What answers is another's by now.
_WATCH = """
trap '' HUP INT TERM
read -r _ || ls "$1" || { shift; exec "$@"; }
"""


def unmount(path: str) -> None:
    """Unmount it, whatever state it is in, if it is mounted."""
    # Without the program nothing was mounted either.
    with contextlib.suppress(FileNotFoundError):
        subprocess.run(  # noqa: S603
            _make_command(path), check=False, capture_output=True
        )


@contextlib.contextmanager
def unmounted(path: str) -> Iterator[None]:
    """See to it that a mount ends with this process, even by SIGKILL.

    Inside the context whoever mounts it unmounts it as well.

    :param path: an absolute one
    """
    watcher = subprocess.Popen(  # noqa: S603
        ['sh', '-c', _WATCH, 'sh', path, *_make_command(path)],  # noqa: S607
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd='/',
        # What ends this process must not end the watcher.
        start_new_session=True,
    )
    try:
        yield
    finally:
        watcher.communicate(b'\n')


def _make_command(path: str) -> list[str]:
    if os.getuid():
        return [shutil.which('fusermount3') or _FUSERMOUNT, '-uz', path]
    return ['umount', '-l', path]
