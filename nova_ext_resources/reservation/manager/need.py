# SPDX-License-Identifier: Apache-2.0

"""What is short on a host for what is promised there."""

from collections.abc import Collection, Iterable, Sequence, Set
import dataclasses

from oslo_log import log as logging

from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation.manager import promised
from nova_ext_resources.reservation.manager import supplies
from nova_ext_resources.reservation import outage

LOG = logging.getLogger(__name__)

#: How many servers the log names.
_NAMED = 5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """What is short on a host at one time.

    :ivar start: when, in seconds since the epoch; now for what has begun
    :ivar slots: that take from its providers then
    :ivar places: that slots of the host take from
    :ivar leaving: servers that go by themselves before it
    :ivar uses: what placement shows of the places
    :ivar changes: planned changes of capacity
    """

    host: str
    start: int
    slots: Sequence[promised.Slot]
    places: Set[host_view.Place]
    leaving: Set[str]
    shortage: lending.Shortage
    uses: lending.Uses
    changes: capacity_change.Changes = ()

    def find_shortage(self, uses: lending.Uses, now: int) -> lending.Shortage:
        """Return what is short by what placement shows now.

        What will be taken away by then counts, too.

        :param now: seconds since the epoch
        """
        return lending.find_shortage(
            supplies.lower(uses, self.changes, start=self.start, now=now),
            [slot for _key, slot in self.slots],
            self.leaving,
            self.places,
        )

    @property
    def keys(self) -> list[str]:
        """The reservations that lack something."""
        return sorted(
            {
                key
                for key, slot in self.slots
                if not slot.places.keys().isdisjoint(self.shortage)
            }
        )

    @property
    def words(self) -> str:
        """What is missing there, in a sentence."""
        return lending.describe(self.host, self.shortage, self.names)

    @property
    def names(self) -> dict[str, str]:
        """The names of the providers, by uuid."""
        return {
            one.rp_uuid: one.rp_key
            for _key, slot in self.slots
            for one in slot.assignments
            if one.rp_key
        }


def describe(needs: Iterable[Need]) -> str:
    """Return what is missing on hosts, in words.

    Of many hosts some are named. What is short of a sharing provider is said
    for the first host that uses it.
    """
    said: set[host_view.Place] = set()
    found = []
    for one in needs:
        new = {
            place: short
            for place, short in one.shortage.items()
            if place not in said
        }
        said |= new.keys()
        if new:
            found.append(lending.describe(one.host, new, one.names))
    return outage.join(found)


def warn(need: Need, left: lending.Shortage, holders: Collection[str]) -> None:
    """Log what no server can be told to go for.

    :param left: what stays short
    :param holders: who holds any of what is short
    """
    LOG.warning(
        'Host %(host)s lacks %(missing)s for reservations %(keys)s, from '
        '%(start)s on, and no other servers there can be told to leave. '
        'These servers or migrations (%(number)d) hold the resources: '
        '%(holders)s. Move or delete some of the servers, confirm the resize '
        'or migration of others, or cancel a reservation.',
        {
            'host': need.host,
            'missing': ', '.join(lending.list_parts(left, need.names)),
            'keys': ', '.join(need.keys),
            'start': interval.format_time(need.start),
            'number': len(holders),
            'holders': ', '.join(sorted(holders)[:_NAMED]) or 'none',
        },
    )


def report_strays(
    need: Need, borrowers: Iterable[lending.Borrower]
) -> list[str]:
    """Return who holds of a host and runs on another one, and log it.

    :param borrowers: that would be told to go otherwise
    """
    strays = lending.list_strays(
        borrowers, need.host, need.shortage, need.uses
    )
    if strays:
        LOG.warning(
            'Host %(host)s lacks %(missing)s, because servers that run on '
            'other hosts (%(number)d) have allocations on this host: '
            '%(uuids)s. These servers are not told to leave. If they are not '
            'being moved, heal their allocations: Nova deletes what an '
            'evacuation left when nova-compute starts on this host.',
            {
                'host': need.host,
                'missing': ', '.join(
                    lending.list_parts(need.shortage, need.names)
                ),
                'number': len(strays),
                'uuids': ', '.join(strays[:_NAMED]),
            },
        )
    return strays


def make_notice(need: Need, new: Sequence[lending.Borrower]) -> str:
    """Return the words by which borrowers are told."""
    uuids = ', '.join(one.uuid for one in new)
    time = interval.format_time(need.start)
    hosts = ', '.join(sorted({one.host for one in new}))
    return (
        f'servers are told to leave host {hosts}, which is promised from '
        f'{time} on: {uuids}'
    )
