# SPDX-License-Identifier: Apache-2.0

"""How many unit-hours a project may reserve of a resource class.

One unit that is reserved for one hour is a unit-hour: four servers of two VCPU
for five hours are 40 unit-hours of VCPU. Of each quota counts, at any time:

* what is reserved from now on, however far away,
* what was reserved in the last days, as many as the quota says, whether it was
  used or not. What is released counts until it was,
* what has no end: so many days in all, from its start or from the begin of
  these last days.

So without another reservation the sum never grows as time goes by, and when a
reservation may begin makes no difference to it.
"""

from collections.abc import Iterator
import dataclasses
from typing import NamedTuple

from nova_ext_resources.objects import resource
from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import times

HOUR = 3600
DAY = 24 * HOUR

DEFAULT_DAYS = 30
MAX_DAYS = 3650
MAX_UNIT_HOURS = 10**15

#: As of the names of a reservation's project.
MAX_NAME = 255

_NOTHING = (
    'Nothing can be had: cancel other reservations of the project, wait, or '
    'have the quota raised.'
)

#: More servers than anybody asks for.
_ANY_NUMBER = 1 << 62


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What one project may reserve of one resource class.

    :ivar project: its id
    :ivar unit_hours: 0 lets it reserve nothing
    :ivar days: for how long counts what is over
    :raises ValueError: a number is none, or beyond its bounds
    """

    project: str
    resource_class: str
    unit_hours: int
    days: int = DEFAULT_DAYS

    def __post_init__(self) -> None:
        for name, low, high in (
            ('unit_hours', 0, MAX_UNIT_HOURS),
            ('days', 1, MAX_DAYS),
        ):
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise ValueError(
                    f'{name} is {value!r}; it must be a whole number from '
                    f'{low} to {high}'
                )

    @property
    def limit(self) -> int:
        """Unit-seconds."""
        return self.unit_hours * HOUR

    @property
    def window(self) -> int:
        """Seconds for which counts what is over."""
        return self.days * DAY


def check_names(project: str, resource_class: str) -> None:
    """Check that there may be such a project and such a resource class.

    :raises ValueError: there may not
    """
    check_project(project)
    if not resource.is_resource_class(resource_class):
        raise ValueError(
            f'{resource_class!r} is not a resource class: write a standard '
            'one, such as VCPU, or CUSTOM_ and upper case letters, digits '
            'and _'
        )


def check_project(project: str) -> None:
    """Check that there may be such a project.

    :raises ValueError: there may not
    """
    is_plain = project.isprintable() and project == project.strip()
    if not is_plain or not 1 <= len(project) <= MAX_NAME:
        raise ValueError(
            f'{project!r} is not a project id: write an id of 1 to '
            f'{MAX_NAME} characters, without spaces at its ends'
        )


class Charge(NamedTuple):
    """So many units of a class, reserved for some time.

    A tuple, as the database returns them: a project may have many thousands.

    :ivar reservation: its key
    :ivar amount: of all its servers together
    :ivar starts_at: seconds since the epoch
    :ivar ends_at: the same; ``FOREVER`` where it has no end
    :ivar reserved_from: the start of the reservation, of which this may be a
        later part
    """

    reservation: str
    resource_class: str
    amount: int
    starts_at: int
    ends_at: int
    reserved_from: int

    def count_seconds(self, now: int, window: int) -> int:
        """Return the unit-seconds of it that count.

        :param now: seconds since the epoch
        :param window: seconds
        """
        oldest = now - window
        end = self.ends_at
        if end >= interval.FOREVER:
            end = max(self.reserved_from, oldest) + window
        return self.amount * max(0, end - max(self.starts_at, oldest))

    def cut(self, now: int) -> 'Charge | None':
        """Return what is left of it if it is released; None if nothing."""
        if self.starts_at >= now:
            return None
        return self._replace(ends_at=min(self.ends_at, now))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """A quota, and how much of it is taken.

    :ivar used: unit-seconds; more than the limit if that was lowered
    """

    quota: Quota
    used: int

    @property
    def left(self) -> int:
        """Unit-seconds."""
        return max(0, self.quota.limit - self.used)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Shortage:
    """A quota that is in the way of a request.

    :ivar use: without what the request takes the place of
    :ivar asked: unit-seconds
    """

    use: Use
    asked: int

    def __str__(self) -> str:
        use = self.use
        return (
            f'{use.quota.resource_class}: '
            f'{format_hours(self.asked, is_up=True)} unit-hours requested, '
            f'{format_hours(use.left)} left '
            f'({format_hours(use.used, is_up=True)} of '
            f'{use.quota.unit_hours} are reserved or were in the last '
            f'{use.quota.days} days)'
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Account:
    """What a project may reserve, and what it has reserved.

    :ivar quotas: none where it may reserve all
    :ivar charges: of all its reservations, as far as they count
    """

    quotas: tuple[Quota, ...] = ()
    charges: tuple[Charge, ...] = ()

    def list_uses(self, now: int) -> list[Use]:
        """Return each quota with what is taken of it.

        :param now: seconds since the epoch
        """
        return [
            Use(
                quota=quota,
                used=_sum(self._list_of(quota), now, quota.window),
            )
            for quota in self.quotas
        ]

    def _list_of(self, quota: Quota) -> list[Charge]:
        return [
            one
            for one in self.charges
            if one.resource_class == quota.resource_class
        ]

    def limit(
        self, request: plan_request.Request, now: int, wanted: int = 0
    ) -> plan_request.Request:
        """Return a request with as many servers at most as the quotas allow.

        What does not grow is allowed however small a quota has become.

        :param now: seconds since the epoch. What the same reservation has
            reserved for later is given back
        :param wanted: fewer servers do not do; ``least`` by default
        :raises QuotaExceeded: fewer servers do not do
        """
        wanted = wanted or request.least
        parts = [*self._list_parts(request, now)]
        fitting = min((one.fitting for one in parts), default=request.most)
        if fitting >= wanted:
            most = min(request.most, fitting)
            return dataclasses.replace(request, most=most)
        raise _refuse(request, now, wanted, parts)

    def _list_parts(
        self, request: plan_request.Request, now: int
    ) -> Iterator['_Part']:
        """Return what each quota means for a request."""
        resources = request.demand.requirement.resources
        for use in self.list_uses(now):
            quota = use.quota
            if not (amount := resources.get(quota.resource_class, 0)):
                continue
            own = [
                one
                for one in self._list_of(quota)
                if one.reservation == request.key
            ]
            kept = [left for one in own if (left := one.cut(now))]
            given = _sum(own, now, quota.window) - _sum(
                kept, now, quota.window
            )
            yield _Part(
                use=Use(quota=quota, used=use.used - given),
                given=given,
                amount=amount,
                each=_count_each(request, now, quota),
            )


def _sum(charges: list[Charge], now: int, window: int) -> int:
    return sum(one.count_seconds(now, window) for one in charges)


def _count_each(request: plan_request.Request, now: int, quota: Quota) -> int:
    """Return the unit-seconds of one server, from now on."""
    charges = list_charges(request, request.during, 1, now)
    return _sum(
        [one for one in charges if one.resource_class == quota.resource_class],
        now,
        quota.window,
    )


def list_charges(
    request: plan_request.Request,
    during: interval.Interval,
    servers: int,
    now: int,
) -> list[Charge]:
    """Return what servers of a request are charged for, from now on.

    :param during: when they are served
    :param now: seconds since the epoch
    """
    if during.end <= now:
        return []
    return [
        Charge(
            reservation=request.key,
            resource_class=name,
            amount=amount * servers,
            starts_at=max(during.start, now),
            ends_at=during.end,
            reserved_from=during.start,
        )
        for name, amount in sorted(
            request.demand.requirement.resources.items()
        )
        if amount
    ]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """What one quota means for a request.

    :ivar use: without what the same reservation gives back
    :ivar given: what it gives back, unit-seconds
    :ivar amount: of one server
    :ivar each: unit-seconds of one server
    """

    use: Use
    given: int
    amount: int
    each: int

    @property
    def room(self) -> int:
        """Unit-seconds that the reservation may take."""
        return max(self.use.left, self.given)

    @property
    def fitting(self) -> int:
        """Servers that the quota allows."""
        return self.room // self.each if self.each else _ANY_NUMBER


def _refuse(
    request: plan_request.Request, now: int, wanted: int, parts: list[_Part]
) -> errors.QuotaExceeded:
    """Return the error, with what would be allowed."""
    fitting = min(one.fitting for one in parts)
    begin = max(request.during.start, now)
    seconds = min(one.room // (one.amount * wanted) for one in parts)
    longest = begin + seconds - request.during.start if seconds else 0
    shortages = tuple(
        Shortage(use=one.use, asked=one.each * wanted)
        for one in parts
        if one.fitting < wanted
    )
    offers = []
    if fitting:
        offers.append(f'{fitting} can be had for that time.')
    if longest:
        text = times.format_seconds(longest)
        offers.append(f'{wanted} can be had for {text}.')
    return errors.QuotaExceeded(
        key=request.key,
        project=request.project,
        shortages=shortages,
        fitting=fitting,
        longest=longest,
        reasons='\n'.join(
            [
                *(f'{one}.' for one in shortages),
                *(offers or [_NOTHING]),
            ]
        ),
    )


def format_hours(seconds: int, *, is_up: bool = False) -> str:
    """Return hours, with two digits after the point if they are needed.

    :param is_up: whether to round up, and not down
    """
    parts = seconds * 100
    hundredths = -(-parts // HOUR) if is_up else parts // HOUR
    whole, rest = divmod(hundredths, 100)
    return f'{whole}.{rest:02}'.rstrip('0').rstrip('.') if rest else f'{whole}'


def count_hours(seconds: int, *, is_up: bool = False) -> float:
    """Return hours as a number, for programs; see :func:`format_hours`."""
    text = format_hours(seconds, is_up=is_up)
    return int(text) if text.isdecimal() else float(text)
