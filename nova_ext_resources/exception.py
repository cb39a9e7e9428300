# SPDX-License-Identifier: Apache-2.0

"""Everything this package raises.

::

    ExtResourcesError
      + InvalidConfiguration
      + InvalidExtraSpec
      + InvalidResource
      + PluginError
        - PluginNotFound
        - PluginLoadFailed
        - DiscoveryFailed
      + PlacementError
        - PlacementUnavailable   (Retriable)
        - ConcurrentUpdate       (Retriable)
        - InventoryInUse
        - ProviderInUse
        - DuplicateName
        - AllocationRejected
        - NotFound
        - PlacementRefused
      + ClaimError
        - CapacityExceeded
        - ConstraintsViolated
      + EnforcementFailed
      + EntryStepRefused
      + LedgerError
        - LedgerInUse
        - LedgerNotChecked
      + ComputeUnavailable       (Retriable)
      + ReservationError
        - InvalidReservation
        - ReservationExists
        - ReservationNotFound
        - ReservationRefused
        - StateRefused
      + StoreError
        - RevisionMoved          (Retriable)
        - StoreUnavailable       (Retriable)
        - InventoriesUnread      (Retriable)
    Retriable                    (may be tried again as it is)

The clients of host daemons add families of their own below
``ExtResourcesError`` (``nova_ext_resources.drivers.rmd.api.errors``), and the
quotas of projects do so too (``nova_ext_resources.reservation.errors``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
import contextlib
import dataclasses
from typing import Any


class Retriable(Exception):
    """Marks a temporary failure: the same call may succeed later."""


class ExtResourcesError(Exception):
    """Base of all: ``message`` is filled from the keyword arguments.

    The arguments stay available as attributes. A template key that is not
    given is a bug and raises ``KeyError``.
    """

    message = 'Something failed in nova-ext-resources.'

    def __init__(self, **data: Any) -> None:
        super().__init__(self._fill(data))
        self.__dict__.update(data)

    def _fill(self, data: Mapping[str, Any]) -> str:
        # A reason is often another message, which ends with a full stop.
        stopped = {
            key: value.rstrip('.')
            for key, value in data.items()
            if isinstance(value, str) and f'%({key})s.' in self.message
        }
        return self.message % {**data, **stopped}

    def name_host(self, host: str) -> None:
        """Begin the message with the host, unless it names one already."""
        if not getattr(self, 'host', ''):
            self.__dict__['host'] = host
            self.args = (f'Host {host}: {self}',)


@contextlib.contextmanager
def naming_host(host: str) -> Iterator[None]:
    """Let errors of this package name the host on which they were raised.

    An option or a file is wrong on one host of many, and the parts that read
    them do not know its name.
    """
    try:
        yield
    except ExtResourcesError as err:
        err.name_host(host)
        raise


class InvalidConfiguration(ExtResourcesError):
    """An option, or a file that an option names, cannot be used.

    :ivar option: the option, as ``[group] name``
    :ivar value: what it holds
    :ivar reason: why that is refused, and what would be right
    """

    message = '%(option)s = %(value)s cannot be used: %(reason)s'

    def _fill(self, data: Mapping[str, Any]) -> str:
        is_empty = data['value'] in (None, '')
        return super()._fill(
            {**data, 'value': '(empty)'} if is_empty else data
        )


class InvalidExtraSpec(ExtResourcesError):
    """A flavor extra spec of ours is malformed.

    :ivar key: the extra spec
    :ivar value: its value as it came
    :ivar reason: what would be right
    """

    message = 'Extra spec %(key)s=%(value)s is refused: %(reason)s'


class InvalidResource(ExtResourcesError):
    """A resource, inventory or provider does not make sense.

    :ivar name: the resource class or provider
    :ivar reason: what is wrong and what would be right
    """

    message = '%(name)s: %(reason)s'


class PluginError(ExtResourcesError):
    """A plugin cannot be used.

    :ivar plugin: its entry point name
    """


class PluginNotFound(PluginError):
    """An option names a plugin that is not installed.

    :ivar namespace: the entry point namespace that was searched
    :ivar names: what is installed there
    """

    message = (
        'Plugin %(plugin)r is not installed in %(namespace)s; installed '
        'plugins: %(names)s. Correct the name in the option of '
        '[ext_resources], or install the package that provides the plugin.'
    )


class PluginLoadFailed(PluginError):
    """A plugin is installed but cannot be imported or constructed.

    :ivar namespace: its entry point namespace
    :ivar reason: what it raised
    """

    message = (
        'Plugin %(plugin)r of %(namespace)s cannot be loaded: %(reason)s. '
        'Repair the plugin, or remove it from the option that names it.'
    )


class DiscoveryFailed(PluginError):
    """An inventory provider could not read the host this time.

    :ivar reason: what happened
    """

    message = (
        'Inventory provider %(plugin)s could not discover the host: '
        '%(reason)s. An earlier inventory of the provider stays valid.'
    )


class PlacementError(ExtResourcesError):
    """Placement refused or did not answer.

    :ivar action: what was asked of it, such as ``set inventories of ...``
    :ivar status: HTTP status, None when there was no answer
    :ivar code: placement's error code, such as
        ``placement.concurrent_update``; '' where it gave none
    :ivar detail: placement's own words, or what happened; and what to do
    :ivar request_id: to find the request in placement's log, or ''
    """

    message = 'Placement did not %(action)s: %(answer)s'

    action: str
    status: int | None
    code: str
    detail: str
    request_id: str

    def __init__(
        self,
        *,
        action: str,
        detail: str,
        status: int | None = None,
        code: str = '',
        request_id: str = '',
    ) -> None:
        said = ' '.join(filter(None, (str(status or ''), code, detail)))
        super().__init__(
            action=action,
            answer=f'{said} ({request_id})' if request_id else said,
            status=status,
            code=code,
            detail=detail,
            request_id=request_id,
        )


class PlacementUnavailable(PlacementError, Retriable):
    """No endpoint, no connection, or a 5xx answer."""


class ConcurrentUpdate(PlacementError, Retriable):
    """A provider's or consumer's generation moved on (409)."""


class InventoryInUse(PlacementError):
    """The inventory to be removed has allocations (409)."""


class ProviderInUse(PlacementError):
    """The provider to be removed has allocations or children (409)."""


class DuplicateName(PlacementError):
    """Another provider has that name (409)."""


class AllocationRejected(PlacementError):
    """Allocations exceed a capacity or break a unit rule (409)."""


class NotFound(PlacementError):
    """The provider, class or trait does not exist (404)."""


class PlacementRefused(PlacementError):
    """Any other 4xx answer."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Shortfall:
    """One reason why a host cannot take a server.

    :ivar rp_uuid: the resource provider, '' when it is the whole host
    :ivar resource_class: what was asked for
    :ivar requested: how many units
    :ivar available: the most that one server could get there now
    :ivar reason: a sentence; says what would help
    :ivar is_permanent: it would remain if all other servers left the host
    :ivar rp_key: the provider's key on its host, for the message; '' when
        it is not known
    """

    rp_uuid: str = ''
    resource_class: str
    requested: int
    available: int = 0
    reason: str
    is_permanent: bool = False
    rp_key: str = dataclasses.field(default='', compare=False)

    def __str__(self) -> str:
        name = self.rp_key or (self.rp_uuid and f'provider {self.rp_uuid}')
        where = f' of {name}' if name else ''
        # What is free now says nothing of what can never be had.
        left = '' if self.is_permanent else f', {self.available} available'
        return (
            f'{self.resource_class}{where}: {self.requested} requested{left}: '
            f'{self.reason}'
        )


class ClaimError(ExtResourcesError):
    """A host cannot take a server; carries every shortfall, sorted.

    The reasons come first, because Nova shows the first 255 characters.

    :ivar host: the compute host
    :ivar consumer_uuid: the server
    :ivar shortfalls: tuple of :class:`Shortfall`, the permanent ones first
    """

    message = (
        'Host %(host)s cannot serve %(reasons)s (server %(consumer_uuid)s)'
    )

    shortfalls: tuple[Shortfall, ...]

    def __init__(
        self,
        *,
        host: str,
        consumer_uuid: str,
        shortfalls: Iterable[Shortfall],
    ) -> None:
        ordered = tuple(
            sorted(
                set(shortfalls), key=lambda one: (not one.is_permanent, one)
            )
        )
        super().__init__(
            host=host,
            consumer_uuid=consumer_uuid,
            shortfalls=ordered,
            reasons='; '.join(str(one).rstrip('.') for one in ordered),
        )


class CapacityExceeded(ClaimError):
    """The host is busy: a smaller request, or a later one, may fit."""

    message = (
        'Host %(host)s cannot now serve %(reasons)s (server %(consumer_uuid)s)'
    )


class ConstraintsViolated(ClaimError):
    """The host could never serve this request."""

    message = (
        'Host %(host)s can never serve %(reasons)s (server %(consumer_uuid)s)'
    )


class EnforcementFailed(ExtResourcesError):
    """Claimed resources could not be applied, and were released.

    :ivar host: the compute host
    :ivar enforcer: entry point name
    :ivar consumer_uuid: the server, '' when it concerns no single one
    :ivar reason: what happened, and what to do
    """

    message = (
        'Enforcer %(enforcer)s on host %(host)s failed: %(reason)s%(whom)s'
    )

    def _fill(self, data: Mapping[str, Any]) -> str:
        uuid = data['consumer_uuid']
        reason = data['reason'].rstrip('.') if uuid else data['reason']
        whom = f' (server {uuid})' if uuid else ''
        return super()._fill({**data, 'reason': reason, 'whom': whom})


class EntryStepRefused(ExtResourcesError):
    """A step that an entry must never take, see :mod:`.entry_table`. A bug.

    :ivar consumer_uuid: whose entry; '' where there is none
    :ivar state: of the entry, or ``absent``
    :ivar purpose: of the entry, or ``none``
    :ivar event: the event whose step was refused
    """

    message = (
        'Entry of consumer %(consumer_uuid)s: step "%(event)s" is not allowed '
        'in state "%(state)s" with purpose "%(purpose)s", and was not taken. '
        'Please report this bug'
    )


class LedgerError(ExtResourcesError):
    """The host's record of assignments cannot be read or written.

    :ivar path: its file
    :ivar reason: what happened, and what to do
    """

    message = 'Ledger %(path)s: %(reason)s'

    reason: str


class LedgerInUse(LedgerError):
    """Another process of this machine has the ledger open."""


class LedgerNotChecked(LedgerError):
    """Nothing can be told of the ledger now; it may be in order."""


class ComputeUnavailable(ExtResourcesError, Retriable):
    """The Compute API cannot be reached, or refused a question.

    :ivar action: what was asked of it
    :ivar reason: what happened, and what to do
    :ivar is_away: whether it does not answer at all, or not to these
        credentials
    :ivar status: HTTP status; None when there was no answer, or no sense in it
    """

    message = 'The Compute API did not %(action)s: %(reason)s.'

    is_away: bool = False
    status: int | None = None


class ReservationError(ExtResourcesError):
    """What is asked for a reservation cannot be done.

    :ivar key: the reservation
    """

    message = 'Reservation %(key)s cannot be changed.'


class InvalidReservation(ReservationError):
    """What is asked for makes no sense, whatever is free.

    :ivar field: the part of the request that is wrong
    :ivar reason: why, and what would be right
    """

    message = 'Reservation %(key)s: %(field)s: %(reason)s.'


class ReservationExists(ReservationError):
    """Another request was accepted under this key, or it has ended."""

    message = (
        'Reservation %(key)s exists with a different request, or is over; '
        'choose another name.'
    )


class ReservationNotFound(ReservationError):
    """There is no such reservation."""

    message = (
        'There is no reservation %(key)s; list all reservations, also '
        'finished ones, to find the name.'
    )


class ReservationRefused(ReservationError):
    """There is no room for what is asked for; nothing was changed.

    :ivar refusal: the counter-offer, a
        :class:`~nova_ext_resources.reservation.planner.Refusal`
    :ivar reasons: what could be had instead, and what is short where
    :ivar offers: the first part of it, which names no host
    """

    message = 'Reservation %(key)s does not fit: %(reasons)s'

    key: str
    refusal: Any
    offers: str


class StateRefused(ReservationError):
    """A reservation cannot go from its state to the one that is asked for.

    :ivar state: its state
    :ivar wanted: the state that is asked for
    :ivar advice: what can be done instead
    """

    message = (
        'Reservation %(key)s is %(state)s and cannot become %(wanted)s: '
        '%(advice)s.'
    )


class StoreError(ExtResourcesError):
    """The database of the reservations did not do what it should.

    Nothing of the call was stored, unless the database could not answer any
    more: then all of it was stored, or nothing.

    :ivar reason: what happened, and what to do
    """

    message = 'Store of reservations: %(reason)s'

    reason: str


class RevisionMoved(StoreError, Retriable):
    """Another process has changed what a plan was made of."""


class StoreUnavailable(StoreError, Retriable):
    """The database cannot be reached, or does not answer in time."""


class InventoriesUnread(StoreError, Retriable):
    """A plan takes of providers of which only capacities are known.

    :ivar read: reads their inventories. It takes time: hold no lock
    """

    message = 'Not all inventories of the plan could be read in time.'

    read: Callable[[], None]
