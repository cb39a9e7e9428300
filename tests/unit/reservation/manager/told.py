# SPDX-License-Identifier: Apache-2.0

"""What must hold of what subscribers are told."""

from collections.abc import Iterable, Mapping, Sequence
import itertools
from typing import Any

from nova_ext_resources.reservation.store import states
from tests.unit.reservation.manager import views


def check_told(
    got: Sequence[Mapping[str, Any]],
    rows: Mapping[tuple[str, int], states.Change],
    view: views.View,
    *,
    is_all: bool,
) -> None:
    """Check that each row is told once, in order.

    :param got: what an operator was told, as it arrived
    :param rows: as of :class:`.laws.Record`
    :param is_all: whether all has arrived
    """
    told = _leave_out_same(got)
    numbers = [one['sequence'] for one in told]
    assert numbers == [*range(1, len(told) + 1)], numbers
    found: dict[str, list[int]] = {}
    for one in told:
        data = one['data']
        if 'number' in data:
            found.setdefault(data['reservation'], []).append(data['number'])
            row = rows[data['reservation'], data['number']]
            assert (data['state'], data['reason']) == (row.state, row.reason)
    for key, own in found.items():
        assert own == [*range(len(own))], f'{key} was told as {own}'
    if is_all:
        expected = _count_rows(rows)
        assert {key: len(own) for key, own in found.items()} == expected
        _check_places(told, view)


def _leave_out_same(
    got: Iterable[Mapping[str, Any]],
) -> list[Mapping[str, Any]]:
    """Return each event once, where it came first."""
    known: dict[str, Mapping[str, Any]] = {}
    for one in got:
        assert known.setdefault(one['id'], one) == one, 'it has changed'
    return [*known.values()]


def _count_rows(rows: Iterable[tuple[str, int]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for key, _number in rows:
        found[key] = found.get(key, 0) + 1
    return found


def _check_places(told: Iterable[Mapping[str, Any]], view: views.View) -> None:
    """Check that a subscriber knows by now who has which place."""
    known: dict[tuple[str, str], str | None] = {}
    for one in told:
        data = one['data']
        if one['type'].startswith('allocation.'):
            is_taken = one['type'] == 'allocation.taken'
            place = data['reservation'], data['place']
            known[place] = data['server'] if is_taken else None
    for slot in view.slots:
        place = slot.reservation, slot.server
        assert known.get(place) == slot.consumer, (
            f'{place} is taken by {slot.consumer}; told: {known.get(place)}'
        )


def check_amounts(
    got: Sequence[Mapping[str, Any]], available: int, least: int
) -> None:
    """Check that a subscriber knows whether enough is available.

    :param got: what it was told, as it arrived
    :param least: the threshold
    """
    kinds = [one['type'] for one in _leave_out_same(got)]
    turns = itertools.cycle(('capacity.low', 'capacity.enough'))
    assert kinds == [*itertools.islice(turns, len(kinds))], kinds
    is_low = bool(len(kinds) % 2)
    assert is_low is (available < least), f'{available} of {least}: {kinds}'
