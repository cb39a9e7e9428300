# SPDX-License-Identifier: Apache-2.0

"""The CPUs of this machine, which go offline and come back."""

import pathlib
import unittest

from nova_ext_resources.objects import bitmask

PATH = pathlib.Path('/sys/devices/system/cpu')

#: An emulated machine takes seconds for each.
_FEW = 2


def parse(text: str) -> set[int]:
    return set(bitmask.parse_list(text.strip()))


def _switch(cpu: int, state: str) -> None:
    (PATH / f'cpu{cpu}' / 'online').write_text(state)


def set_offline(cpus: str) -> None:
    """Take CPUs like ``3,7`` offline.

    :raises unittest.SkipTest: too many, or one that cannot
    """
    wanted = sorted(parse(cpus))
    if len(wanted) > _FEW:
        raise unittest.SkipTest('to take many CPUs offline takes minutes')
    if 0 in wanted:
        raise unittest.SkipTest('CPU 0 of this machine cannot go offline')
    for cpu in wanted:
        _switch(cpu, '0')


def set_online(cpus: str) -> None:
    for cpu in sorted(parse(cpus)):
        _switch(cpu, '1')


def set_all_online() -> None:
    for path in PATH.glob('cpu*/online'):
        if path.read_text().strip() == '0':
            path.write_text('1')
