# SPDX-License-Identifier: Apache-2.0

"""Who wants to be told of what, and where. Pure.

A document has these keys; all but ``url`` may be left out:

* ``url``: where notifications are sent
* ``events``: kinds such as ``reservation.degraded``, or whole groups:
  ``reservation``, ``allocation``, ``capacity``
* ``reservation``: only of this one
* ``remaining``: durations before the end at which ``reservation.ending`` is
  sent, such as ``['1d', '1h']``
* ``zone``, ``resource_class``, ``threshold``: instead of reservations, how
  much is available of a class in a zone
* ``secret``: by which notifications are signed; without it one is made
"""

from collections.abc import Mapping
import dataclasses
from typing import Any, TypeAlias

from nova_ext_resources.objects import resource
from nova_ext_resources.reservation import event
from nova_ext_resources.reservation import times
from nova_ext_resources.reservation.webhook import signature

Kind = event.Kind
Document: TypeAlias = Mapping[str, Any]

#: As of all names in the tables.
MAX_NAME = 255

#: What may be available of a class, as placement counts it.
MAX_AMOUNT = 10**15

MOST_REMAINING = 10
DEFAULT_REMAINING = (3600,)

#: Seconds: the passes of a manager are not more frequent, and no reservation
#: needs a notice of more than a year.
LEAST_SECONDS, MOST_SECONDS = 60, 366 * 86400

_CAPACITY = ('zone', 'resource_class', 'threshold')
_KEYS = frozenset(
    {'url', 'events', 'reservation', 'remaining', 'secret', *_CAPACITY}
)

#: Of capacity or of reservations, never both: a project sees no capacity.
_OF_CAPACITY = frozenset(one for one in Kind if one.group == 'capacity')
_OF_RESERVATIONS = frozenset(Kind) - _OF_CAPACITY


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Watched:
    """What is available of a class in a zone, and how much there should be.

    :ivar threshold: less than that is too little
    """

    zone: str
    resource_class: str
    threshold: int

    def check(self) -> None:
        """Check that it makes sense.

        :raises ValueError: there is no such class, or a value is none
        """
        _check_name('zone', self.zone)
        name = self.resource_class
        if not isinstance(name, str) or not resource.is_resource_class(name):
            raise ValueError(
                f'resource_class: {name!r} is not a resource class: write a '
                'standard one, such as VCPU, or CUSTOM_ and upper case '
                'letters, digits and _'
            )
        number = self.threshold
        if type(number) is not int or not 1 <= number <= MAX_AMOUNT:
            raise ValueError(
                f'threshold: {number!r} is not a whole number from 1 to '
                f'{MAX_AMOUNT}'
            )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One receiver, and what it is told of.

    It may make no sense: another release may have written it, which knew other
    events and classes. :func:`make_subscription` makes only what does.

    :ivar uuid: its own
    :ivar project: only of reservations of this one; '' is an operator's, of
        all projects
    :ivar url: may have a token in its path
    :ivar reservation: only of this one; None for all
    :ivar watched: what is available, in place of reservations
    :ivar remaining: seconds before an end, the most first
    :ivar created_at: seconds since the epoch
    """

    uuid: str
    project: str
    url: str
    kinds: frozenset[Kind]
    reservation: str | None = None
    watched: Watched | None = None
    remaining: tuple[int, ...] = ()
    secret: str = dataclasses.field(repr=False)
    created_at: int

    def check(self) -> None:
        """Check that it makes sense.

        :raises ValueError: it does not; the message begins with the key
        """
        if self.watched is not None:
            self.watched.check()
        if self.project:
            _check_name('project', self.project)
        if self.reservation is not None:
            _check_name('reservation', self.reservation)
        allowed = _OF_RESERVATIONS if self.watched is None else _OF_CAPACITY
        if not self.kinds or not self.kinds <= allowed:
            raise ValueError(
                'events: without zone, resource_class and threshold, write '
                f'some of {_join(_OF_RESERVATIONS)}; with them, write some '
                f'of {_join(_OF_CAPACITY)}'
            )
        if self.watched is not None and self.reservation is not None:
            raise ValueError(
                'reservation: a subscription to capacity names no '
                'reservation; make another subscription for it'
            )
        if self.watched is not None and self.project:
            raise ValueError(
                'zone: capacity belongs to no project, and only operators '
                'may subscribe to capacity'
            )
        self._check_remaining()

    def _check_remaining(self) -> None:
        for one in self.remaining:
            if not LEAST_SECONDS <= one <= MOST_SECONDS:
                raise ValueError(
                    f'remaining: {times.format_seconds(one)} is not from 1m '
                    'to 366d'
                )
        if len(self.remaining) > MOST_REMAINING:
            raise ValueError(
                f'remaining: at most {MOST_REMAINING} values are allowed'
            )
        if bool(self.remaining) is not (Kind.ENDING in self.kinds):
            raise ValueError(
                f'remaining: the event {Kind.ENDING} needs values; other '
                'events have none'
            )

    @property
    def is_private(self) -> bool:
        """Whether it is told what only operators may know."""
        return not self.project


def make_subscription(
    document: Document, *, uuid: str, project: str, now: int
) -> Subscription:
    """Make a subscription of what was asked for.

    :param project: of whoever asks; '' for operators
    :param now: seconds since the epoch
    :raises ValueError: it makes no sense; the message begins with the key
    """
    if unknown := sorted(map(str, document.keys() - _KEYS)):
        raise ValueError(
            f'{unknown[0]}: unknown key; known keys: '
            f'{", ".join(sorted(_KEYS))}'
        )
    watched = _read_watched(document)
    kinds = _read_kinds(document.get('events'), watched)
    made = Subscription(
        uuid=uuid,
        project=project,
        url=_read_text('url', document.get('url')),
        kinds=kinds,
        reservation=_read_reservation(document),
        watched=watched,
        remaining=_read_remaining(document.get('remaining'), kinds),
        secret=_read_secret(document.get('secret')),
        created_at=now,
    )
    made.check()
    return made


def _read_watched(document: Document) -> Watched | None:
    given = [one for one in _CAPACITY if document.get(one) is not None]
    if not given:
        return None
    missing = [one for one in _CAPACITY if one not in given]
    if missing:
        raise ValueError(
            f'{missing[0]}: it is missing; {", ".join(_CAPACITY)} go together'
        )
    return Watched(**{one: document[one] for one in _CAPACITY})


def _read_kinds(wanted: object, watched: Watched | None) -> frozenset[Kind]:
    if wanted is None:
        return _OF_RESERVATIONS if watched is None else _OF_CAPACITY
    if not isinstance(wanted, list | tuple):
        raise ValueError('events: it must be a list')
    found: set[Kind] = set()
    for one in wanted:
        named = {kind for kind in Kind if one in (kind.value, kind.group)}
        if not named:
            raise ValueError(
                f'events: {one!r} is unknown; known events: '
                f'{_join(frozenset(Kind))}'
            )
        found |= named
    return frozenset(found)


def _read_reservation(document: Document) -> str | None:
    wanted = document.get('reservation')
    return None if wanted is None else _read_text('reservation', wanted)


def _read_remaining(wanted: object, kinds: frozenset[Kind]) -> tuple[int, ...]:
    if wanted is None:
        return DEFAULT_REMAINING if Kind.ENDING in kinds else ()
    if not isinstance(wanted, list | tuple):
        raise ValueError('remaining: it must be a list')
    try:
        found = {times.parse_seconds(_read_text('', one)) for one in wanted}
    except ValueError as err:
        raise ValueError(f'remaining: {err}') from err
    return tuple(sorted(found, reverse=True))


def _read_secret(secret: object) -> str:
    if secret is None:
        return signature.make_secret()
    text = _read_text('secret', secret, shown='it')
    try:
        signature.check_secret(text)
    except ValueError as err:
        raise ValueError(f'secret: {err}') from err
    return text


def _read_text(key: str, value: object, *, shown: str | None = None) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(
            f'{key}: {shown or repr(value)} is no text'.removeprefix(': ')
        )
    return value


def _check_name(key: str, name: object) -> None:
    is_name = isinstance(name, str) and 1 <= len(name) <= MAX_NAME
    if not is_name or not str(name).isprintable():
        raise ValueError(
            f'{key}: {name!r:.80} is not a name of 1 to {MAX_NAME} characters'
        )


def _join(kinds: frozenset[Kind]) -> str:
    return ', '.join(sorted(kinds))
