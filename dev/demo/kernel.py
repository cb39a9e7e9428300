# SPDX-License-Identifier: Apache-2.0

"""What the kernel of a host shows: groups, masks, CPUs and threads."""

from collections.abc import Iterable
import os
import uuid

from dev.cloud.machines import resctrl
from dev.demo import scene as scenes
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.objects import assignment

_COLUMNS = ('group', 'schemata', 'CPUs', 'threads')

#: How many threads of a group are named.
_MAX_THREADS = 8


def show(scene: scenes.Scene, host: str) -> None:
    """Print every control group of a host, read as anybody may read it."""
    machine = get_machine(scene, host)
    scene.stage.table(
        f'{machine.path} on {host}',
        _COLUMNS,
        [
            _row(scene, machine, name)
            for name in ('', *_list_groups(machine.list_groups(), scene))
        ],
    )


def show_steps(scene: scenes.Scene, host: str, ways: int) -> None:
    """Print what one more server would change, and change nothing."""
    options = get_machine(scene, host).options()
    one = assignment.Assignment(
        rp_uuid='',
        rp_key=classes.make_l3_key(0),
        resource_class=classes.WAYS,
        amount=ways,
        units={'mask': f'{(1 << ways) - 1:x}'},
    )
    server_id = str(uuid.uuid4())
    steps = resctrl.make_enforcer(options, host).plan(
        assignment.Entry(consumer_uuid=server_id, assignments=(one,))
    )
    scene.stage.table(
        f'What one more floating server would change on {host}',
        ('step',),
        [[str(one).replace(server_id, '<it>')] for one in steps],
    )


def get_machine(scene: scenes.Scene, host: str) -> resctrl.Machine:
    """Return the machine of a host of this backend."""
    machine = scene.machines[host]
    assert isinstance(machine, resctrl.Machine), 'an act of resctrl'
    return machine


def _list_groups(names: Iterable[str], scene: scenes.Scene) -> list[str]:
    return sorted(names, key=lambda name: _label(scene, name))


def _row(
    scene: scenes.Scene, machine: resctrl.Machine, name: str
) -> list[str]:
    folder = f'{name}/' if name else ''
    schemata = machine.read(f'{folder}schemata').splitlines()
    return [
        _label(scene, name),
        '\n'.join(line.strip() for line in schemata),
        machine.read(f'{folder}cpus_list').strip() if name else 'all others',
        _list_threads(machine.list_threads(name)) if name else 'all others',
    ]


def _label(scene: scenes.Scene, name: str) -> str:
    if not name:
        return '(default)'
    server_id = name.removeprefix(resctrl.PREFIX)
    known = scene.names.get(server_id)
    return f'{resctrl.PREFIX}<{known}>' if known else name


def _list_threads(threads: Iterable[int]) -> str:
    named = [f'{one} {_find_name(one)}'.strip() for one in threads]
    more = len(named) - _MAX_THREADS
    tail = [f'... {more} more'] if more > 0 else []
    return '\n'.join([*named[:_MAX_THREADS], *tail]) or 'none'


def _find_name(thread: int) -> str:
    """Return what a thread calls itself; '' once it is gone."""
    try:
        with open(f'/proc/{thread}/comm', encoding='utf-8') as file:
            return file.read().strip()
    except OSError:
        return ''


def list_threads(pid: int) -> set[int]:
    """Return all threads of a process of this machine."""
    return {int(name) for name in os.listdir(f'/proc/{pid}/task')}
