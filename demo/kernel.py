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

"""What the kernel of a host shows: groups, masks, CPUs and threads."""

from collections.abc import Iterable
import os

from demo.machines import resctrl
from demo import scene as scenes

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


def get_machine(scene: scenes.Scene, host: str) -> resctrl.Machine:
    """Give the machine of a host of this backend."""
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
    """Give what a thread calls itself; '' once it is gone."""
    try:
        with open(f'/proc/{thread}/comm', encoding='utf-8') as file:
            return file.read().strip()
    except OSError:
        return ''


def list_threads(pid: int) -> set[int]:
    """Give all threads of a process of this machine."""
    return {int(name) for name in os.listdir(f'/proc/{pid}/task')}
