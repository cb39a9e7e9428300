# SPDX-License-Identifier: Apache-2.0

"""How far one change of the kernel's groups travels through the package.

A server that floats gets four ways of the second cache; every call of a
function of the package is followed. The fewer modules it passes through, and
the less often it goes from one to another, the easier it is to read.
"""

import collections
import os
import sys
import tempfile
import types
from typing import Any
import uuid

from dev.bench.harness import rows as rows_mod
from dev.cloud.machines import resctrl as machine_mod
import nova_ext_resources
from nova_ext_resources.conf.drivers import resctrl as conf
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.resctrl.guest import processes
from nova_ext_resources.objects import assignment
from nova_ext_resources.testing import resctrl

#: The goals, of which two are missed. It was 30, 769 and 18 when each module
#: worked out anew which server has which way, and 20, 249 and 11 when values
#: of schemata were nested.
MODULES, CHANGES, DEPTH = 12, 150, 10

_SERVER = str(uuid.UUID(int=4))

_HOME = os.path.dirname(nova_ext_resources.__file__)
_DOUBLES = os.path.join(_HOME, 'testing')


class Trace:
    """Follows every call of this thread, as long as it is entered.

    :ivar calls: module -> how often one of its functions was called
    :ivar changes: how often control went to another module
    :ivar depth: the most functions of the package at a time
    """

    def __init__(self) -> None:
        self.calls: collections.Counter[str] = collections.Counter()
        self.changes = 0
        self.depth = 0
        self._stack: list[str] = []
        self._last = ''

    def __enter__(self) -> 'Trace':
        sys.setprofile(self._follow)
        return self

    def __exit__(self, *_error: object) -> None:
        sys.setprofile(None)

    def _follow(self, frame: types.FrameType, event: str, _arg: Any) -> None:
        path = frame.f_code.co_filename
        if not path.startswith(_HOME) or path.startswith(_DOUBLES):
            return
        module = os.path.relpath(path, _HOME)
        if event == 'call':
            self.calls[module] += 1
            self._stack.append(module)
            self.depth = max(self.depth, len(self._stack))
            self._enter(module)
        elif event == 'return' and self._stack:
            self._stack.pop()
            self._enter(self._stack[-1] if self._stack else '')

    def _enter(self, module: str) -> None:
        if module and module != self._last:
            self.changes += 1
            self._last = module


def run() -> list[rows_mod.Row]:
    with (
        resctrl.ResctrlFixture('skylake2') as machine,
        tempfile.TemporaryDirectory() as folder,
    ):
        trace = follow(machine, folder)
    for module, number in trace.calls.most_common():
        print(f'{number:5} {module}', file=sys.stderr)
    return [
        rows_mod.make_row(name, value, limit, 'of one apply')
        for name, value, limit in (
            ('modules', len(trace.calls), MODULES),
            ('changes of module', trace.changes, CHANGES),
            ('stack depth', trace.depth, DEPTH),
        )
    ]


def _make_proc(folder: str) -> str:
    """Make a ``/proc`` that always has the same processes."""
    os.mkdir(os.path.join(folder, '1'))
    with open(os.path.join(folder, '1', 'stat'), 'w') as file:
        file.write(f'1 (init) S {"0 " * 30}')
    with open(os.path.join(folder, '1', 'cmdline'), 'w') as file:
        file.write('/sbin/init')
    return folder


def follow(machine: resctrl.ResctrlFixture, folder: str) -> Trace:
    """Apply a server to a host that has been read before."""
    enforcer = machine_mod.make_enforcer(
        {conf.GROUP.name: {'cpu_path': machine.cpu_path}},
        'bench',
        files=machine.file_system,
        processes=processes.Processes(_make_proc(folder), folder),
    )
    enforcer.list_applied()
    held = (
        assignment.Assignment(
            rp_uuid='', rp_key='RDT', resource_class=classes.CLOS, amount=1
        ),
        assignment.Assignment(
            rp_uuid='',
            rp_key='L3_1',
            resource_class=classes.WAYS,
            amount=4,
            units={'mask': 'f'},
        ),
    )
    entry = assignment.Entry(consumer_uuid=_SERVER, assignments=held)
    with Trace() as trace:
        enforcer.apply(entry)
    return trace
