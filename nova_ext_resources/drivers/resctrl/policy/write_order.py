# SPDX-License-Identifier: Apache-2.0

"""The steps from the groups that are there to those that are to be. Pure.

At no time, after no step, may two groups fill a way that either of them is to
have for itself, or had: what loses ways is narrowed before another group gets
them. Only what was so before the first step may stay so until its turn. One
case is left: other software has let the default group and a server change
places, and neither has ways to keep out of the other's way in. Then the
default group is written first.

Four servers on a cache of twelve ways, of which the host keeps the highest. A
has six ways of its own, B one. C is new and is to have three; D has memory
bandwidth alone and shares what is left. A is moved for the sake of the
example::

    step                                default   A     B     C     D
                                            f00   07e   080     -   f00
    make group C                            f00   07e   080     -   f00
    narrow the default group to 800         800   07e   080     -   f00
    move A to 3f                            800   03f   080     -   f00
    narrow D to 800                         800   03f   080     -   800
    fill C with 700                         800   03f   080   700   800

A step is a value; ``str`` makes a sentence of it, so that a list of them can
be read before anything is changed.
"""

from collections.abc import Iterator, Mapping
import dataclasses
import enum
from typing import TypeAlias

from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.kernel import schemata
from nova_ext_resources.drivers.resctrl.policy import layout
from nova_ext_resources.objects import bitmask


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GroupChange:
    """One change of one group.

    :ivar name: of the group
    """

    name: str

    @property
    def label(self) -> str:
        return self.name or 'the default group'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Make(GroupChange):
    def __str__(self) -> str:
        return f'make group {self.label}'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Remove(GroupChange):
    def __str__(self) -> str:
        return f'remove group {self.label}'


class WriteKind(enum.StrEnum):
    """What a change of the schemata does to a group."""

    #: Has all written that it is to have, because it is new.
    FILL = 'fill {} with'
    #: Loses ways.
    NARROW = 'narrow {} to'
    #: Gets ways, and loses none.
    WIDEN = 'widen {} to'
    #: Loses some ways, and gets others.
    MOVE = 'move {} to'
    #: Has its memory bandwidth changed alone.
    LIMIT = 'limit {} to'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Write(GroupChange):
    """Change the schemata of a group.

    :ivar values: those that change
    """

    kind: WriteKind
    values: schemata.Schemata

    def __str__(self) -> str:
        text = ' '.join(schemata.format_lines(self.values).split())
        return f'{self.kind.format(self.label)} {text}'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SetCpus(GroupChange):
    cpus: frozenset[int]

    def __str__(self) -> str:
        cpus = bitmask.format_list(self.cpus) or 'no CPUs'
        return f'put {cpus} into {self.label}'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SetTasks(GroupChange):
    """Have all threads of some servers in a group, and no others.

    :ivar is_new: whether nothing was ever put into the group
    """

    servers: tuple[str, ...]
    is_new: bool = False

    def __str__(self) -> str:
        if not self.servers:
            return f'take all threads out of {self.label}'
        return (
            f'put the threads of {", ".join(self.servers)} into {self.label}'
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TakeBack(GroupChange):
    """Have no thread of a server in a group of other software."""

    server: str

    def __str__(self) -> str:
        return f'take the threads of {self.server} out of {self.label}'


def plan_writes(
    tree: groups.Tree, desired: layout.Desired
) -> tuple[GroupChange, ...]:
    """Find the steps that make what is there what is desired."""
    there, goals = tree.groups, desired.groups
    foreign = {one.name for one in tree.foreign}
    gone = [one for one in there if one not in goals and one not in foreign]
    return (
        *[Remove(name=one) for one in gone],
        *[Make(name=one) for one in goals if one not in there],
        *_Writes(there, desired).list_steps(),
        *_list_members(there, desired),
    )


def _list_members(
    there: Mapping[str, groups.Group], desired: layout.Desired
) -> Iterator[GroupChange]:
    """Bring CPUs or threads in, then let the other kind out.

    A server that was pinned and now floats is in its group all the time.
    """
    for name, goal in desired.groups.items():
        if goal.members is None:
            continue
        group = there.get(name)
        tasks = SetTasks(
            name=name, servers=goal.members.floating, is_new=group is None
        )
        if tasks.servers:
            yield tasks
        if goal.members.cpus != (group.cpus if group else frozenset()):
            yield SetCpus(name=name, cpus=goal.members.cpus)
        if group and not tasks.servers:
            yield tasks


#: Group, and cache in which it has ways.
_Cell: TypeAlias = tuple[str, schemata.Cache]


class _Writes:
    """Orders the writes of schemata.

    :ivar _left: group -> values that are not written yet
    :ivar _now: group -> its values, step after step
    :ivar _filled: ways of each group in each cache, step after step; none in
        a group that is new
    :ivar _own: ways that a group is to have for itself, or had
    """

    def __init__(
        self, there: Mapping[str, groups.Group], desired: layout.Desired
    ) -> None:
        self._there = there
        self._host = desired.host
        self._now: dict[str, schemata.Schemata] = {
            name: there[name].schemata if name in there else {}
            for name in desired.groups
        }
        self._left: dict[str, schemata.Schemata] = {
            name: changed
            for name, goal in desired.groups.items()
            if (changed := _find_changed(self._now[name], goal.schemata))
        }
        self._after = {
            name: {**self._now[name], **goal.schemata}
            for name, goal in desired.groups.items()
        }
        self._old = self._sum_up(self._now)
        self._new = self._sum_up(self._after)
        self._filled = dict(self._old)
        self._own = {
            cell: _find_own(self._old, cell) | _find_own(self._new, cell)
            for cell in self._old
        }
        self._evaded: set[_Cell] = set()

    def _sum_up(
        self, found: Mapping[str, schemata.Schemata]
    ) -> dict[_Cell, int]:
        masks = {
            name: schemata.get_masks(values) for name, values in found.items()
        }
        return {
            (name, cache): one.get(cache, 0)
            for name, one in masks.items()
            for cache in self._host
        }

    def list_steps(self) -> Iterator[GroupChange]:
        """Return the writes in an order in which none disturbs a group.

        A group that can be finished goes first. If there is none, one is
        written in part; if no part can be written either, a group gets out
        of the way of the others until these have moved.
        """
        while self._left:
            ready = {name: self._find_ready(name) for name in self._left}
            whole = [one for one in ready if ready[one] == self._left[one]]
            # What is in a new group does not matter: it is filled at once.
            part = [one for one in ready if ready[one] and one in self._there]
            if whole:
                yield self._write(whole[0], ready[whole[0]])
            elif part:
                name = max(part, key=lambda one: len(ready[one]))
                yield self._write(name, ready[name])
            else:
                yield self._evade() or self._force()

    def _find_ready(self, name: str) -> schemata.Schemata:
        """Return the values of a group that can be written now."""
        return {
            control: value
            for control, value in self._left[name].items()
            if self._can_write(name, *control)
        }

    def _can_write(self, name: str, control: str, number: int) -> bool:
        """Return whether a value disturbs no group; bandwidth must be free."""
        if control == schemata.BANDWIDTH:
            limit = control, number
            return self._is_less(name, limit) or not any(
                self._is_less(one, limit) for one in self._left
            )
        cache = schemata.Cache(schemata.LEVELS[control], number)
        return self._is_free(name, cache, self._new[name, cache])

    def _is_less(self, name: str, limit: tuple[str, int]) -> bool:
        """Return whether a group is about to give up bandwidth."""
        after, now = self._left[name].get(limit), self._now[name].get(limit)
        return after is not None and now is not None and after < now

    def _is_free(self, name: str, cache: schemata.Cache, mask: int) -> bool:
        """Return whether a group can have these ways beside all others."""
        return not mask & self._find_blocked(name, cache)

    def _find_blocked(self, name: str, cache: schemata.Cache) -> int:
        """Return the ways that others fill, and that are not to be shared."""
        blocked = 0
        cell = (name, cache)
        for (one, place), mask in self._filled.items():
            if place != cache or one == name:
                continue
            own = self._own[cell] | self._own[one, cache]
            common = (
                self._old[cell] & self._old[one, cache]
                | self._new[cell] & self._new[one, cache]
            )
            blocked |= mask & own & ~common
        return blocked

    def _write(self, name: str, values: schemata.Schemata) -> GroupChange:
        lost = gained = 0
        self._now[name] = {**self._now[name], **values}
        for cache, mask in schemata.get_masks(self._now[name]).items():
            before = self._filled.get((name, cache), 0)
            lost |= before & ~mask
            gained |= mask & ~before
            self._filled[name, cache] = mask
        self._left.pop(name, None)
        if left := _find_changed(self._now[name], self._after[name]):
            self._left[name] = left
        if name not in self._there:
            kind = WriteKind.FILL
        elif all(control == schemata.BANDWIDTH for control, _ in values):
            kind = WriteKind.LIMIT
        elif bool(lost) == bool(gained):
            kind = WriteKind.MOVE
        else:
            kind = WriteKind.NARROW if lost else WriteKind.WIDEN
        return Write(name=name, kind=kind, values=values)

    def _evade(self) -> GroupChange | None:
        """Let a group keep out of the ways that others wait for.

        Those that share the default group's ways first: they have no
        guarantee. A server with ways of its own does so only where servers
        are to change places, and has the host's ways in the meantime.
        """
        for is_server in (False, True):
            for name in self._left:
                ways = {
                    cache: schemata.Ways(mask)
                    for cache in schemata.get_masks(self._left[name])
                    if bool(self._own[name, cache]) == is_server
                    and (mask := self._find_refuge(name, cache))
                }
                if ways and name in self._there:
                    self._evaded |= {(name, cache) for cache in ways}
                    known = self._there[groups.DEFAULT].schemata
                    values = schemata.make_values(known, ways, {})
                    return self._write(name, values)
        return None

    def _find_refuge(self, name: str, cache: schemata.Cache) -> int:
        """Return ways that a group can have for a while, 0 for none."""
        cell = (name, cache)
        if cell in self._evaded:
            return 0
        host = self._host[cache]
        free = self._new[cell] & ~self._find_blocked(name, cache)
        mask = bitmask.find_run_of(free, host) or bitmask.find_longest(free)
        if mask.bit_count() < host.bit_count():
            # The CPU may give no group as few.
            mask = host
        is_better = self._filled[cell] & ~mask
        return mask if is_better and self._is_free(name, cache, mask) else 0

    def _force(self) -> GroupChange:
        """Write what disturbs a group: other software has mixed them up."""
        name = next(iter(self._left))
        return self._write(name, self._left[name])


def _find_own(masks: Mapping[_Cell, int], cell: _Cell) -> int:
    """Return the ways that a group alone has; the default one has none."""
    if cell[0] == groups.DEFAULT:
        return 0
    own = masks[cell]
    for one, mask in masks.items():
        if one[1] == cell[1] and one != cell:
            own &= ~mask
    return own


def _find_changed(
    before: schemata.Schemata, after: schemata.Schemata
) -> schemata.Schemata:
    return dict(after.items() - before.items())
