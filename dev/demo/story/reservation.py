# SPDX-License-Identifier: Apache-2.0

"""Capacity is promised for later, lent until then, and released early."""

from collections.abc import Iterator, Sequence
import contextlib
import dataclasses
import re
import time
from typing import Any

from dev.cloud import reservations
from dev.cloud import told
from dev.cloud import tree
from dev.cloud import waiting
from dev.demo import hearing
from dev.demo import landed
from dev.demo import reasons
from dev.demo import scene as scenes
from dev.demo.story import boot
from dev.demo.story import flavors
from dev.demo.story import given_back

_FLAVOR = 'gold'

_FIRST = 'night'
_SECOND = 'batch'
_DURATION = '10m'

_BORROWED = 'borrowed'
_BORROWERS = ('borrower-1', 'borrower-2')
_ORDINARY = 'walk-in'

#: Seconds from the order to the start, or so many times what a command takes,
#: which is more where the machine is busy.
_LEAD_SECONDS = 60
_LEAD_COMMANDS = 8

#: Seconds between the notice and the end of a borrower.
_DRAIN_SECONDS = 10

_READY_SECONDS = 120.0

#: What the manager logs first.
_STARTED = 'The manager of reservations has started'

#: What is drawn of the time, and in how many letters.
_WINDOW = '25m'
_WIDTH = '78'

_OFFER = re.compile(r'^(\d+) can be had from (\S+) to (\S+)\.$', re.MULTILINE)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Promise:
    """The first reservation.

    :ivar servers: how many, which is all that fit
    :ivar begins: its start, as the command shows it
    :ivar ends: its end, likewise
    """

    servers: int
    begins: str
    ends: str

    @property
    def seconds(self) -> float:
        """Seconds until it begins."""
        return reservations.count_seconds(self.begins)


def play(scene: scenes.Scene) -> None:
    """Reserve all that there is, and see to it that each gets its own.

    :raises NotAsTold: what is promised was given to another server, or was
        not there at the start
    """
    scene.stage.act(
        'A reservation',
        'All that the hosts have is promised for a time that begins in about '
        'a minute. Until then it is lent to servers that go in time.',
    )
    promise = _reserve(scene)
    _keep_others_out(scene)
    _lend(scene, promise)
    with _managing(scene):
        _drain(scene, promise)
        _refuse(scene, promise)
        _begin(scene, promise)
        _release(scene, promise)
    given_back.delete_all(scene)


def _reserve(scene: scenes.Scene) -> _Promise:
    with scene.stage.step(_command('capacity', '--flavor', _FLAVOR)):
        count, took = scene.reservations.survey(_FLAVOR, _DURATION)
    scene.stage.note(f'{count} servers of {_FLAVOR} fit on all hosts.')
    lead = max(_LEAD_SECONDS, round(took * _LEAD_COMMANDS))
    made = _order(
        scene,
        *('create', _FIRST, '--flavor', _FLAVOR, '--servers', str(count)),
        *('--start', f'+{lead}s', '--duration', _DURATION),
    )
    _draw(scene, 'The calendar')
    return _Promise(
        servers=count, begins=made['starts_at'], ends=made['ends_at']
    )


def _keep_others_out(scene: scenes.Scene) -> None:
    """Ask for servers that may not have what is promised, or not yet."""
    mark = scene.journal.mark()
    boot.boot_in_vain(scene, _ORDINARY, _FLAVOR)
    reasons.show(scene, mark, 'ReservationFilter refuses')
    boot.boot_in_vain(
        scene,
        'too-early',
        _FLAVOR,
        reservation=_FIRST,
        reason='has not started yet',
    )


def _lend(scene: scenes.Scene, promise: _Promise) -> None:
    """Boot servers that say when they go."""
    vcpus, ram, extra_specs = flavors.GOLD
    lease = {
        # Half of what is left is for the manager and for Nova.
        'resource:lease:max_seconds': str(max(round(promise.seconds / 2), 1)),
        'resource:lease:drain_seconds': str(_DRAIN_SECONDS),
    }
    said = ', '.join(f'{key}={value}' for key, value in lease.items())
    with scene.stage.step(f'Create the flavor {_BORROWED}: {_FLAVOR}, {said}'):
        scene.add_flavor(
            _BORROWED, {**extra_specs, **lease}, vcpus=vcpus, ram=ram
        )
    for name in _BORROWERS:
        boot.boot(scene, name, _BORROWED)
    landed.show(scene, _BORROWERS)


@contextlib.contextmanager
def _managing(scene: scenes.Scene) -> Iterator[None]:
    """Run the manager of reservations.

    It is not needed before: what is promised is in the tables.
    """
    mark = scene.journal.mark()
    with scene.reservations.managed(seconds=5.0) as manager:
        with scene.stage.step('Start nova-ext-resources-reservations'):
            manager.wait_until(
                lambda: bool(scene.journal.since(mark, _STARTED)),
                seconds=_READY_SECONDS,
            )
        yield


def _drain(scene: scenes.Scene, promise: _Promise) -> None:
    """Wait until the borrowers have gone, and have left their room.

    :raises NotAsTold: one is there when the reservation starts
    """
    who = ' and '.join(_BORROWERS)
    with scene.stage.step(f'Wait until {who} have gone') as step:
        waiting.until(
            lambda: all(_has_gone(scene, name) for name in _BORROWERS),
            f'{who} go before {promise.begins}, when {_FIRST} starts',
            seconds=max(promise.seconds, 0),
        )
        step.result = f'{promise.seconds:.0f} s before the start'
    scene.stage.table(
        'Who borrowed',
        ('server', 'status', 'holds in placement'),
        [_row(scene, name) for name in _BORROWERS],
    )
    _show_history(scene, _order(scene, 'show', _FIRST))


def _has_gone(scene: scenes.Scene, name: str) -> bool:
    _name, status, held = _row(scene, name)
    return status == 'SHELVED_OFFLOADED' and not held


def _row(scene: scenes.Scene, name: str) -> tuple[str, str, int]:
    server_id = scene.servers[name]
    status = scene.sdk.compute.get_server(server_id).status
    held = tree.list_allocations(scene.cloud.placement, server_id)
    return name, str(status), len(held)


def _refuse(scene: scenes.Scene, promise: _Promise) -> None:
    """Ask for what is promised already, and take what is offered instead.

    :raises NotAsTold: it is promised twice, or there is no good offer
    """
    half = promise.servers // 2
    words = ('create', _SECOND, '--flavor', _FLAVOR, '--servers', str(half))
    asked = ('--start', '+1m', '--end', promise.ends)
    with scene.stage.step(_command(*words, *asked)) as step:
        said = scene.reservations.order_in_vain(*words, *asked)
        step.result = 'refused, as it should be'
    scene.stage.figure('The refusal', said.splitlines())
    offer = _OFFER.search(said)
    told.expect(
        offer is not None and offer.groups()[:2] == (f'{half}', promise.ends),
        f'{half} are offered from the end of {_FIRST} on, {promise.ends}',
        said,
    )
    assert offer is not None, 'expected above'
    made = _order(scene, *words, '--start', offer[2], '--end', offer[3])
    told.expect(
        (made['starts_at'], made['servers']) == (offer[2], half),
        'what was offered is given',
        made,
    )
    _draw(scene, 'The calendar')


def _begin(scene: scenes.Scene, promise: _Promise) -> None:
    """Boot what was reserved, as soon as its time has come.

    :raises NotAsTold: a server does not get its place
    """
    hearing.wait(scene, scene.hosts)
    with scene.stage.step(f'Wait until {promise.begins}'):
        time.sleep(max(promise.seconds, 0))
    names = _list_reserved(promise)
    for name in names:
        boot.boot(scene, name, _FLAVOR, reservation=_FIRST)
    landed.show(scene, names)
    taken = _order(scene, 'show', _FIRST)['taken_by']
    told.expect(
        {*taken.values()} == {scene.servers[name] for name in names},
        f'the places of {_FIRST} are taken by its servers',
        taken,
    )


def _release(scene: scenes.Scene, promise: _Promise) -> None:
    """Release what is left of the time, and give it to others.

    :raises NotAsTold: it cannot be had
    """
    names = _list_reserved(promise)
    with scene.stage.step(f'Delete {", ".join(names)}'):
        for name in names:
            scene.delete(name)
    hearing.wait(scene, scene.hosts)
    gone = _order(scene, 'cancel', _FIRST, '--reason', 'done earlier')
    _show_history(scene, gone)
    boot.boot(scene, _ORDINARY, _FLAVOR)
    _draw(scene, f'The calendar: {_SECOND} has its time still')
    _order(scene, 'cancel', _SECOND, '--reason', 'end of the act')


def _list_reserved(promise: _Promise) -> Sequence[str]:
    return [f'{_FIRST}-{one}' for one in range(1, promise.servers + 1)]


def _order(scene: scenes.Scene, *words: str) -> Any:
    """Run a command in a step of its own; return what it shows."""
    with scene.stage.step(_command(*words)):
        return scene.reservations.order(*words)


def _command(*words: str) -> str:
    quoted = (f'"{one}"' if ' ' in one else one for one in words)
    return f'openstack extended reservation {" ".join(quoted)}'


def _draw(scene: scenes.Scene, title: str) -> None:
    scene.stage.figure(
        title,
        scene.reservations.draw('--duration', _WINDOW, '--width', _WIDTH),
    )


def _show_history(scene: scenes.Scene, shown: Any) -> None:
    """Print what happened to the first reservation.

    :param shown: by a command
    """
    changes = (
        f'{one["changed_at"]} {one["state"]}: {one["reason"]}'
        for one in shown['changes']
    )
    scene.stage.listing(
        f'The history of {_FIRST}', reasons.replace_uuids(scene, changes)
    )
