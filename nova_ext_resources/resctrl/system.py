# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""The system calls of a write, and the check before a privileged one."""

from collections.abc import Iterable
import errno
import os

MOUNTS = '/proc/self/mountinfo'

_TYPE = 'resctrl'


def write(path: str, text: str) -> None:
    """Write by one system call, which is one command to the kernel.

    A buffered file would write when it is closed, where the kernel's
    refusal is easily lost.

    :raises OSError: as the kernel gives it; EIO when it took a part only
    """
    data = text.encode()
    handle = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if os.write(handle, data) != len(data):
            raise OSError(errno.EIO, 'only a part was written')
    finally:
        os.close(handle)


def assign(path: str, tids: Iterable[int]) -> None:
    """Write the numbers of threads to a file ``tasks``, one per system call.

    Those that have ended are passed over. Later kernels take a list, and
    give up at the first thread of it that has ended.

    :raises OSError: as the kernel gives it; some may have been moved
    """
    handle = os.open(path, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        for tid in tids:
            try:
                os.write(handle, b'%d\n' % tid)
            except ProcessLookupError:
                continue
    finally:
        os.close(handle)


def check(folder: str, mounts: str = MOUNTS) -> None:
    """Make sure that a folder lies in a mount of type resctrl.

    :raises OSError: EPERM, it does not
    """
    device = os.stat(folder).st_dev
    with open(mounts, encoding='utf-8') as file:
        if f'{os.major(device)}:{os.minor(device)}' in _list_devices(
            file.read()
        ):
            return
    raise OSError(errno.EPERM, f'{folder} is not in a mount of resctrl')


def _list_devices(text: str) -> set[str]:
    """Give the devices of all mounts of resctrl (proc(5), mountinfo)."""
    devices = set()
    for line in text.splitlines():
        fields, _dash, rest = line.partition(' - ')
        if rest.split(' ')[0] == _TYPE:
            devices.add(fields.split(' ')[2])
    return devices
