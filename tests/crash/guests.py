# SPDX-License-Identifier: Apache-2.0

"""Guests that outlive the nova-compute that made them, as real ones do.

Nova's fake driver keeps them in its memory; here they are files.
"""

import json
import pathlib
from typing import Any

from nova.compute import power_state
from nova.virt import fake

from tests.crash import steps


class Guest(fake.FakeInstance):
    """A guest whose power state is in a file."""

    def __init__(
        self, path: pathlib.Path, name: str, state: int, uuid: str
    ) -> None:
        self._path = path
        self.name, self.uuid = name, uuid
        self.state = state

    @property
    def state(self) -> int:
        return self._state

    @state.setter
    def state(self, state: int) -> None:
        with steps.around(f'guest {power_state.STATE_MAP[state]}'):
            self._state = state
            fresh = self._path.with_suffix('.new')
            fresh.write_text(json.dumps([self.name, state, self.uuid]))
            fresh.rename(self._path)


class Guests(dict[str, Any]):
    """The guests of a host by uuid, kept in a folder."""

    def __init__(self, folder: pathlib.Path) -> None:
        super().__init__()
        self._folder = folder
        folder.mkdir(exist_ok=True)
        for path in folder.glob('*.json'):
            name, state, uuid = json.loads(path.read_text())
            made = Guest.__new__(Guest)
            made._path, made._state = path, state
            made.name, made.uuid = name, uuid
            super().__setitem__(uuid, made)

    def __setitem__(self, uuid: str, made: Any) -> None:
        path = self._folder / f'{uuid}.json'
        guest = Guest(path, made.name, made.state, uuid)
        super().__setitem__(uuid, guest)

    def __delitem__(self, uuid: str) -> None:
        with steps.around('guest destroyed'):
            (self._folder / f'{uuid}.json').unlink()
            super().__delitem__(uuid)


def install(folder: pathlib.Path) -> None:
    """Have Nova's fake driver keep its guests in a folder."""
    make = fake.FakeDriver.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        self.instances = Guests(folder)

    def power_off_to_move(
        self: Any, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> str:
        guest = self.instances.get(instance.uuid)
        if guest is not None:
            guest.state = power_state.SHUTDOWN
        return ''

    fake.FakeDriver.__init__ = __init__
    fake.FakeDriver.migrate_disk_and_power_off = power_off_to_move
