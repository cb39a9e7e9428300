# SPDX-License-Identifier: Apache-2.0

"""Remove a folder in which something may still be mounted.

What a FUSE file system is mounted on cannot be removed, even when the
process behind it is dead.
"""

import os
import re
import shutil

from nova_ext_resources.testing import unmount

_TABLE = '/proc/self/mountinfo'

#: Blanks and the like, as the kernel writes them in a path.
_ESCAPED = re.compile(r'\\([0-7]{3})')


def remove(folder: str) -> None:
    """Delete a folder with all that is in it and on it; twice is once."""
    for path in list_below(folder):
        unmount.unmount(path)
    shutil.rmtree(folder, ignore_errors=True)


def list_below(folder: str, table: str = _TABLE) -> tuple[str, ...]:
    """Return the mount points below a folder, the innermost ones first.

    :param table: of mounts, see proc_pid_mountinfo(5)
    """
    with open(table, encoding='utf-8', errors='surrogateescape') as file:
        paths = [_unescape(line.split(' ')[4]) for line in file]
    above = os.path.join(os.path.realpath(folder), '')
    # The kernel lists what is mounted on another after it.
    return tuple(path for path in reversed(paths) if path.startswith(above))


def _unescape(path: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), path)
