# SPDX-License-Identifier: Apache-2.0

"""How much of a class a provider will have: the one rule for changes.

Pure. Placement shows how much there is; planned changes say how much more or
less it will be. What of them has come is nowhere said: it is what explains
that placement shows something else than was there when they were planned.

1. What there would be without any change is kept with them: the *base*.
2. If all that has begun had come, and nothing else, there would be the base
   with the changes that go on. Where placement shows something else, so much

   * less is late of increases that have begun, and otherwise has come early of
     decreases;
   * more is late of decreases that have begun, and otherwise has come early of
     increases.

   What explains it in no such way was changed beside all plans.
3. What is late of an increase is not there until placement shows it. What is
   late of a decrease is gone all the same.
4. What has come early of a change does not come again at its start.
5. At the end of a change, what came with it is taken back.

With a base of 8, and 4 more planned from Monday on::

    placement shows        before Monday    from Monday on
    8                      8                12
    12, it is early        12               12
    4, lost beside it      4                8
    8, it is late                           8, until placement shows more

Where it cannot be known which of several changes has come, it is taken to be
the one that leaves less: nothing is promised twice. What hides each other, as
a cut and an upgrade of the same size that are both late, cannot be seen.
"""

from collections.abc import Iterator, Mapping
import dataclasses

from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import profile


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """What a change is for one class."""

    key: str
    amount: int
    during: interval.Interval

    def is_begun(self, now: int) -> bool:
        return self.during.start <= now


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What is known of one class of one provider.

    :ivar shown: the capacity that placement shows
    :ivar now: seconds since the epoch
    :ivar base: what there would be without any change
    :ivar steps: the changes of it that are not over
    """

    shown: int
    now: int
    base: int
    steps: tuple[_Step, ...]

    @property
    def come(self) -> Mapping[str, int]:
        """Change -> how much of it placement shows, more or less."""
        found = {
            one.key: one.amount if one.is_begun(self.now) else 0
            for one in self.steps
        }
        for one, part in self._explain():
            found[one.key] += part
        return found

    @property
    def late(self) -> frozenset[str]:
        """The changes that have begun, and of which something has not come."""
        come = self.come
        return frozenset(
            one.key
            for one in self.steps
            if one.is_begun(self.now) and come[one.key] != one.amount
        )

    @property
    def lost(self) -> int:
        """How much was taken away beside all changes."""
        explained = sum(part for _one, part in self._explain())
        return max(explained - self._ahead, 0)

    def find_base(self, without: str = '') -> int:
        """Return the base that is to be kept from now on.

        :param without: a change that is taken back: what has come of it for
            certain stays
        """
        base = self.base - self.lost
        for one in self.steps:
            if one.key == without and one.is_begun(self.now):
                missing = min(max(-self._ahead, 0), max(one.amount, 0))
                is_more = one.amount > 0
                base += one.amount - missing if is_more else self.come[one.key]
        return base

    @property
    def _ahead(self) -> int:
        """How much more placement shows than was planned; or less."""
        begun = (one.amount for one in self.steps if one.is_begun(self.now))
        return self.shown - self.base - sum(begun)

    def _explain(self) -> Iterator[tuple[_Step, int]]:
        """Return what has come of changes beside what should have."""
        left = self._ahead
        for one in self._list_doubtful():
            part = min(abs(left), abs(one.amount))
            part = part if left > 0 else -part
            yield one, part
            left -= part

    def _list_doubtful(self) -> list[_Step]:
        """Return what may be late, and then what may be early.

        Those first by which less is left: what is late is so for longest;
        what was added early is gone first, and what was taken away early is
        due last.
        """
        ahead = self._ahead
        late = [
            one
            for one in self.steps
            if one.is_begun(self.now) and one.amount * ahead < 0
        ]
        early = [
            one
            for one in self.steps
            if not one.is_begun(self.now) and one.amount * ahead > 0
        ]
        late.sort(key=lambda one: -one.during.end)
        early.sort(key=lambda one: one.during.start, reverse=ahead < 0)
        return late + early

    def count(self, *, is_sure: bool = False) -> profile.Profile:
        """Return the capacity from now on.

        :param is_sure: whether what will be more is left out, as far as it
            has not come
        """
        come = self.come
        found = profile.Profile(self.shown)
        for one in self.steps:
            self._add(found, one, come[one.key], is_sure)
        for part, amount in [*found.list_steps(_ALWAYS)]:
            if amount < 0:
                found.set(part, 0)
        return found

    def _add(
        self, found: profile.Profile, one: _Step, come: int, is_sure: bool
    ) -> None:
        """Add what is still to come of a change, and what goes with it."""
        if one.amount > 0 and (is_sure or one.is_begun(self.now)):
            rest = 0
        else:
            rest = one.amount - come
        # What a decrease gives back at its end may not come either.
        stays = come if is_sure and one.amount < 0 else 0
        start = max(one.during.start, self.now)
        found.add(interval.Interval(start), rest)
        if not one.during.is_open:
            found.add(interval.Interval(one.during.end), stays - come - rest)


_ALWAYS = interval.Interval(interval.ALWAYS)


def make(
    changes: capacity_change.Changes,
    resource_class: str,
    shown: int | None,
    now: int,
) -> Forecast:
    """Make a forecast for a class of a provider.

    :param changes: of the provider; of other classes, and those that are
        over, are left out
    :param shown: the capacity that placement shows; None where that is not
        known: as much as if nothing had come
    :param now: seconds since the epoch
    """
    found = [
        one
        for one in changes
        if resource_class in one.amounts and one.during.end > now
    ]
    known = [one.before[resource_class] for one in found]
    base = min(known, default=shown or 0)
    return Forecast(
        shown=base if shown is None else shown,
        now=now,
        base=base,
        steps=tuple(
            _Step(
                key=one.key,
                amount=one.amounts[resource_class],
                during=one.during,
            )
            for one in found
        ),
    )
