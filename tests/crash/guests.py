# SPDX-License-Identifier: Apache-2.0

"""Guests that outlive the nova-compute that made them, as real ones do.

Nova's fake driver keeps them in its memory; here they are files. A live
migration is the hypervisors' work, as with libvirt: the guest is paused on
the destination while it is transferred, and from then on runs there, and no
longer on the source, whether or not either nova-compute has survived that.
"""

from collections.abc import Callable, Iterator, MutableMapping
import contextlib
import json
import os
import pathlib
from typing import Any

from nova.compute import power_state
from nova import objects
from nova.virt import fake

from tests.crash import steps


class Guest(fake.FakeInstance):
    """A guest whose power state is in a file."""

    def __init__(
        self, path: pathlib.Path, name: str, state: int, uuid: str
    ) -> None:
        self._path = path
        self.name, self.uuid = name, uuid
        self._state = state

    @property
    def state(self) -> int:
        return self._state

    @state.setter
    def state(self, state: int) -> None:
        with steps.around(f'guest {power_state.STATE_MAP[state]}'):
            self._state = state
            self.write()

    def write(self) -> None:
        fresh = self._path.with_suffix('.new')
        fresh.write_text(json.dumps([self.name, self._state, self.uuid]))
        fresh.rename(self._path)


class Guests(MutableMapping[str, Any]):
    """The guests of a host by uuid, kept in a folder."""

    def __init__(self, folder: pathlib.Path) -> None:
        self._folder = folder
        folder.mkdir(exist_ok=True)

    def find_path(self, uuid: str) -> pathlib.Path:
        return self._folder / f'{uuid}.json'

    def __getitem__(self, uuid: str) -> Guest:
        path = self.find_path(uuid)
        try:
            name, state, _uuid = json.loads(path.read_text())
        except FileNotFoundError:
            raise KeyError(uuid) from None
        return Guest(path, name, state, uuid)

    def __setitem__(self, uuid: str, made: Any) -> None:
        guest = Guest(self.find_path(uuid), made.name, made.state, uuid)
        guest.state = made.state

    def __delitem__(self, uuid: str) -> None:
        with steps.around('guest destroyed'):
            try:
                self.find_path(uuid).unlink()
            except FileNotFoundError:
                raise KeyError(uuid) from None

    def __iter__(self) -> Iterator[str]:
        return iter([one.stem for one in self._folder.glob('*.json')])

    def __len__(self) -> int:
        return sum(1 for _uuid in self)


#: What makes another guest of one, or another state.
_STATES = {
    'pause': power_state.PAUSED,
    'unpause': power_state.RUNNING,
    'suspend': power_state.SUSPENDED,
    'resume': power_state.RUNNING,
    'rescue': power_state.RUNNING,
}


def install(folder: pathlib.Path) -> None:
    """Have Nova's fake driver keep its guests in a folder.

    :param folder: ``<host>/guests``, next to those of the other hosts
    """
    make = fake.FakeDriver.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        self.instances = Guests(folder)

    fake.FakeDriver.__init__ = __init__
    fake.FakeDriver.migrate_disk_and_power_off = _power_off_to_move
    for name, state in _STATES.items():
        setattr(fake.FakeDriver, name, _make_change(state))
    _install_live(fake.FakeDriver, folder)


def _power_off_to_move(
    self: Any, context: Any, instance: Any, *args: Any, **kwargs: Any
) -> str:
    guest = self.instances.get(instance.uuid)
    if guest is not None:
        guest.state = power_state.SHUTDOWN
    return ''


def _make_change(state: int) -> Callable[..., None]:
    def change(self: Any, *arguments: Any, **options: Any) -> None:
        (instance,) = (
            one
            for one in (*arguments, *options.values())
            if isinstance(one, objects.Instance)
        )
        self.instances[instance.uuid].state = state

    return change


# -- live migrations -------------------------------------------------------


def _install_live(driver: Any, folder: pathlib.Path) -> None:
    def live_migration(
        self: Any,
        context: Any,
        instance: Any,
        dest: str,
        post_method: Any,
        _recover_method: Any,
        block_migration: bool = False,
        migrate_data: Any = None,
    ) -> None:
        arrived = Guests(folder.parents[1] / dest / folder.name)
        _transfer(self.instances, arrived, instance.uuid)
        post_method(context, instance, dest, block_migration, migrate_data)

    def live_migration_abort(self: Any, instance: Any) -> None:
        for path in folder.parents[1].glob(f'*/{folder.name}'):
            _abort(Guests(path), instance.uuid)

    def rollback_live_migration_at_destination(
        self: Any, context: Any, instance: Any, *args: Any, **kwargs: Any
    ) -> None:
        self.instances.pop(instance.uuid, None)

    for method in (
        live_migration,
        live_migration_abort,
        rollback_live_migration_at_destination,
    ):
        setattr(driver, method.__name__, method)


def _transfer(left: Guests, arrived: Guests, uuid: str) -> None:
    name = left[uuid].name
    with steps.around('guest incoming'):
        guest = Guest(arrived.find_path(uuid), name, power_state.PAUSED, uuid)
        guest.write()
    with steps.around('guest transferred'):
        os.rename(left.find_path(uuid), arrived.find_path(uuid))


def _abort(arrived: Guests, uuid: str) -> None:
    """End a guest that is still on its way."""
    with contextlib.suppress(KeyError):
        if arrived[uuid].state == power_state.PAUSED:
            del arrived[uuid]
