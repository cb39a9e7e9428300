# SPDX-License-Identifier: Apache-2.0

"""Finds servers that hold something else than placement has allocated to them.

Nova deletes all allocations of a server when rebuilding it in place fails,
for whatever reason; the server keeps its units. Placement would offer them to
others, whom the host refuses: they are reserved there, and an operator is
told. A process that ends between a claim that takes another domain, or several
of them, and its report to placement leaves the allocation on the former
provider: it is reported again.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
import contextlib
import dataclasses

from oslo_log import log as logging

from nova_ext_resources import clocks
from nova_ext_resources import debounce
from nova_ext_resources import exception
from nova_ext_resources.host.claims import allocation_writer
from nova_ext_resources.host import manager
from nova_ext_resources.host import nova_compute
from nova_ext_resources.host.reconcile import migration_lookup
from nova_ext_resources.host.reconcile.rules import allocations
from nova_ext_resources import log_on_change
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.publish import publisher
from nova_ext_resources import plugins
from nova_ext_resources import worker

LOG = logging.getLogger(__name__)

#: Seconds for which a difference must last: between two steps of Nova, two
#: hosts may each take as long to answer as Nova waits (``[DEFAULT]
#: rpc_response_timeout``, 60 seconds). A migration may try one host after
#: another for longer: see ``is_in_doubt`` of a difference.
LASTING = 120.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """A difference that lasts.

    :ivar reason: why placement could not be corrected; '' where that was not
        tried
    """

    difference: allocations.Difference
    reason: str = ''


class MissingAllocations(worker.Worker):
    """Compares again and again, until stopped; nothing that fails ends it.

    It has a thread of its own, and holds no lock while it talks.

    :param loops: woken when other problems were found than before
    :param interval: seconds from one comparison to the next
    """

    THREAD = 'ext-resources-missing-allocations'

    #: It reads, and changes one allocation by one request: none is lost where
    #: it ends in between.
    STOP_TIMEOUT = 1.0

    def __init__(
        self,
        host: manager.HostManager,
        compute: nova_compute.NovaCompute,
        client: placement_client.Client,
        writer: allocation_writer.AllocationWriter,
        *,
        loops: worker.WorkerGroup,
        interval: float,
        clock: clocks.Clock = clocks.MACHINE,
    ) -> None:
        super().__init__()
        self._host = host
        self._client = client
        self._writer = writer
        self._migrations = migration_lookup.Migrations(host.host, compute)
        self._loops = loops
        self._interval = interval
        self._debounce = debounce.Debounce[str, object](
            age=LASTING, clock=clock
        )
        self._found: dict[str, _Found] = {}
        self._failures = log_on_change.LogOnChange()
        self._logged = log_on_change.LogOnChange(f'Host {host.host}: ')

    @property
    def problems(self) -> tuple[alarm.Problem, ...]:
        """Return those of servers that have not claimed anew since."""
        return tuple(
            problem
            for uuid, one in self._found.items()
            if (entry := self._host.find_entry(uuid))
            and entry.claimed_at == one.difference.entry.claimed_at
            for problem in allocations.list_problems(
                one.difference, self._host.host, one.reason
            )
        )

    def do_round(self) -> float:
        self.run_round()
        return publisher.find_delay(0, self._interval)

    def run_round(self) -> None:
        """Compare once; raises nothing. In doubt, all stays as it was."""
        before = self.problems
        try:
            self._compare()
            self._failures.clear()
        except exception.PlacementError as err:
            # The publisher's alarm says so.
            LOG.debug(
                'Placement was not compared: %(err)s',
                {'err': err},
            )
            self._failures.clear()
            # What may be over meanwhile begins anew.
            self._debounce.observe({}, lambda uuid, _: uuid in self._found)
        except Exception as err:
            if self._failures.note(plugins.describe(err)):
                LOG.exception(
                    'Host %(host)s: allocations could not be compared with '
                    'the ledger, and this will be retried. Please report '
                    'this bug',
                    {'host': self._host.host},
                )
        self._report(before)

    def _compare(self) -> None:
        """Find what lasts, and correct what can be.

        :raises PlacementError: it does not answer
        """
        before, view = self._host.entries, self._host.view
        found = allocations.list_providers(before.values(), view.tracked)
        holders = self._read(found & view.keys.keys())
        differences = allocations.compare(
            self._list_settled(before),
            holders,
            view.keys,
            recorded=self._host.entries,
            spreads=view.constraints.spreads_pins,
        )
        lasting = self._list_lasting(self._blame_all(differences))
        self._found = {
            one.difference.entry.consumer_uuid: one
            for one in self._correct_all(lasting)
        }
        self._host.state.withhold(
            (one.difference.entry, one.difference.missing)
            for one in self._found.values()
            # Placement offers nobody what a migration has.
            if not one.difference.migration_uuid
        )

    def _blame_all(
        self, differences: Mapping[str, allocations.Difference]
    ) -> dict[str, allocations.Difference]:
        """Ask Nova for the migrations that differences come from."""
        answers = self._migrations.ask(differences)
        found = {}
        for uuid, one in differences.items():
            before = self._found.get(uuid)
            # A later task of the server does not end what was found. A move
            # that takes the same migration again replaces what that has, so
            # that it is none of the others any more.
            if before and (named := before.difference.migration_uuid):
                answers[uuid][named] = False
            found[uuid] = allocations.blame(one, answers[uuid])
        return found

    def _read(
        self, rp_uuids: Iterable[str]
    ) -> dict[str, Mapping[str, Mapping[str, int]]]:
        """Return what is allocated of each provider that placement has."""
        holders = {}
        for rp_uuid in sorted(rp_uuids):
            with contextlib.suppress(exception.NotFound):
                holders[rp_uuid] = self._client.list_holders(rp_uuid)
        return holders

    def _list_settled(
        self, before: Mapping[str, assignment.Entry]
    ) -> list[assignment.Entry]:
        """Return the entries that nothing was done with in between.

        A claim is reported to placement after it was made, and a server is
        released before Nova deletes its allocations. A server that moves to
        its own host has two entries. Until its guest is off, placement has
        the allocations of each under the uuid of the other; afterwards, Nova
        deletes or exchanges them again before this host hears of it.
        """
        return [
            entry
            for uuid, entry in self._host.entries.items()
            if before.get(uuid) == entry
            and entry.state is not assignment.State.RELEASING
            and not self._host.is_starting(uuid)
            and self._host.list_consumers(entry.server_uuid) == [uuid]
        ]

    def _list_lasting(
        self, differences: Mapping[str, allocations.Difference]
    ) -> list[allocations.Difference]:
        """Return those that were there before, for long enough.

        What is in doubt does not count, unless it was found before.
        """
        lasting = self._debounce.observe(
            {
                uuid: (one.moves, one.further, one.missing, one.surplus)
                for uuid, one in differences.items()
                if uuid in self._found or not one.is_in_doubt
            }
        )
        return [differences[uuid] for uuid in lasting]

    def _correct_all(
        self, lasting: Collection[allocations.Difference]
    ) -> Iterator[_Found]:
        """Correct placement where possible; yield what is left.

        Of each entry that is still the one compared: placement may have
        taken long to answer for those before.

        :raises PlacementError: it does not answer, or lost a race: in doubt
        """
        settled = frozenset(
            one.entry.consumer_uuid
            for one in lasting
            if (one.moves or one.further) and not one.migration_uuid
        )
        for one in lasting:
            uuid, reason = one.entry.consumer_uuid, ''
            if self._host.find_entry(uuid) != one.entry:
                continue
            if uuid in settled:
                try:
                    # All domains of a class in one request, or none.
                    written = {name for _, name in one.further}
                    moves = [o for o in one.moves if o[0] not in written]
                    self._writer.move(uuid, moves, settled)
                    if one.further:
                        self._writer.extend(uuid, one.further)
                except exception.Retriable:
                    raise
                except exception.ExtResourcesError as err:
                    reason = str(err).rstrip('.')
            elif one.moves or one.further:
                # The migration still has it where it was.
                reason = one.migration_uuid
            if reason or one.missing or one.surplus:
                yield _Found(difference=self._locate(one), reason=reason)

    def _locate(self, one: allocations.Difference) -> allocations.Difference:
        """Return it with whether placement has its server elsewhere.

        It is not corrected: Nova's own resources are not here either, and
        with ours alone, the next move would leave these behind.

        :raises PlacementError: it does not answer
        """
        if one.migration_uuid or not one.missing:
            return one
        uuid = one.entry.consumer_uuid
        given = self._client.get_allocations(uuid).resources.keys()
        own = {self._host.node.uuid, *self._host.view.keys}
        return dataclasses.replace(
            one, is_elsewhere=bool(given) and not given & own
        )

    def _report(self, before: tuple[alarm.Problem, ...]) -> None:
        problems = self.problems
        self._logged.log_new(LOG.error, problems)
        if problems != before:
            self._loops.wake_soon()
