# SPDX-License-Identifier: Apache-2.0

"""The counters of the emulated processor, which tests set.

See ``dev/kernel/emulator/rdt.c``.
"""

import contextlib
import os
import struct

from tests.kernel import mount

_DOOR = 0x4D000000
_SELECT, _VALUE, _ASKED, _FLUSH = range(_DOOR, _DOOR + 4)

EVENTS = {'llc_occupancy': 1, 'mbm_total_bytes': 2, 'mbm_local_bytes': 3}

#: How a counter says that it has no number.
_NO_NUMBER = {'Error': 1 << 63, 'Unavailable': 1 << 62, None: 0}


class Counters:
    """Those of all domains.

    :param scale: bytes of one step
    """

    def __init__(self, scale: int) -> None:
        self._scale = scale
        self._steps: dict[tuple[int, int, int], int] = {}

    def flush(self) -> None:
        _write(_FLUSH, 1)
        self._steps.clear()

    def set(self, group: str, domain: int, event: str, size: int) -> None:
        self._set(group, domain, event, size // self._scale)

    def add(self, group: str, domain: int, event: str, size: int) -> None:
        key = (_find_id(group, domain), domain, EVENTS[event])
        steps = self._steps.get(key, 0) + size // self._scale
        self._set(group, domain, event, steps)

    def set_reading(
        self, group: str, domain: int, event: str, text: str | None
    ) -> None:
        self._set(group, domain, event, _NO_NUMBER[text])

    def _set(self, group: str, domain: int, event: str, steps: int) -> None:
        key = (_find_id(group, domain), domain, EVENTS[event])
        self._steps[key] = steps
        _write(_SELECT, domain << 32 | key[0] << 8 | key[2])
        _write(_VALUE, steps)


def _find_id(group: str, domain: int) -> int:
    """Return a group's monitoring id.

    The kernel shows it only where it is mounted to debug; the processor
    sees which one a reader asks for.
    """
    with contextlib.suppress(OSError):
        return int(mount.read(os.path.join(group, 'mon_hw_id')))
    _write(_SELECT, domain << 32)
    path = f'mon_data/mon_L3_{domain:02}/llc_occupancy'
    mount.read(os.path.join(group, path))
    return _read(_ASKED)


def _write(register: int, value: int) -> None:
    handle = os.open('/dev/cpu/0/msr', os.O_WRONLY)
    try:
        os.pwrite(handle, struct.pack('<Q', value), register)
    finally:
        os.close(handle)


def _read(register: int) -> int:
    handle = os.open('/dev/cpu/0/msr', os.O_RDONLY)
    try:
        (value,) = struct.unpack('<Q', os.pread(handle, 8, register))
    finally:
        os.close(handle)
    return int(value)
