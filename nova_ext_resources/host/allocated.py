# SPDX-License-Identifier: Apache-2.0

"""Finds servers that hold something else than placement has allocated to them.

Nova deletes all allocations of a server when rebuilding it in place fails,
for whatever reason; the server keeps its units. Placement would offer them to
others, whom the host refuses: they are reserved there, and an operator is
told. A process that ends between a claim that takes another domain, or several
of them, and its report to placement leaves the allocation on the former
provider: it is reported again.
"""

from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
)
import contextlib
import dataclasses
import time

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.host import audit_allocations as audit
from nova_ext_resources.host import migrations
from nova_ext_resources.host import resources as host_mod
from nova_ext_resources.objects import alarm as alarm_mod
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import view as view_obj
from nova_ext_resources.placement import publisher
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

    difference: audit.Difference
    reason: str = ''


class Allocated(worker.Worker):
    """Compares again and again, until stopped; nothing that fails ends it.

    It has a thread of its own, and holds no lock while it talks.

    :param list_holders: returns resource class -> consumer uuid -> amount of
        one provider, by its uuid
    :param read_allocations: returns all that placement has allocated to a
        consumer
    :param follow: moves what placement has allocated to a consumer to where
        that holds it, as after a claim; see :meth:`.Follower.move`
    :param extend: allocates to a consumer all that it holds of some classes;
        see :meth:`.Follower.extend`
    :param find_migrations: see :data:`.migrations.FindMigrations`
    :param on_changed: called when other problems were found than before
    :param interval: seconds from one comparison to the next
    :param monotonic: returns seconds that no step of the clock changes
    """

    THREAD = 'ext-resources-allocated'

    #: It reads, and changes one allocation by one request: none is lost where
    #: it ends in between.
    STOP_TIMEOUT = 1.0

    def __init__(
        self,
        host: host_mod.HostResources,
        *,
        list_holders: Callable[[str], Mapping[str, Mapping[str, int]]],
        read_allocations: Callable[[str], view_obj.Amounts],
        follow: Callable[[str, Iterable[audit.Move], frozenset[str]], None],
        extend: Callable[[str, Mapping[view_obj.Place, int]], None],
        find_migrations: migrations.FindMigrations,
        on_changed: Callable[[], None],
        interval: float,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._host = host
        self._list_holders = list_holders
        self._read_allocations = read_allocations
        self._follow = follow
        self._extend = extend
        self._migrations = migrations.Migrations(host.host, find_migrations)
        self._on_changed = on_changed
        self._interval = interval
        self._monotonic = monotonic
        self._since: dict[str, tuple[audit.Difference, float]] = {}
        self._found: dict[str, _Found] = {}
        self._failure = ''

    @property
    def problems(self) -> tuple[alarm_mod.Problem, ...]:
        """Return those of servers that have not claimed anew since."""
        return tuple(
            problem
            for uuid, one in self._found.items()
            if (entry := self._host.find_entry(uuid))
            and entry.claimed_at == one.difference.entry.claimed_at
            for problem in audit.list_problems(
                one.difference, self._host.host, one.reason
            )
        )

    def do_round(self) -> float:
        self.run_round()
        return publisher.find_delay(0, self._interval)

    def run_round(self) -> None:
        """Compare once; raises nothing. In doubt, all stays as it was."""
        before = self.problems
        failure = ''
        try:
            self._compare()
        except exception.PlacementError as err:
            # The publisher's alarm says so.
            LOG.debug('Not compared with placement: %(err)s', {'err': err})
            self._forget_recent()
        except Exception as err:
            failure = plugins.describe(err)
            if failure != self._failure:
                LOG.exception(
                    'Host %(host)s: allocations could not be compared with '
                    'the ledger, and this will be retried. Please report '
                    'this bug',
                    {'host': self._host.host},
                )
        self._failure = failure
        self._report(before)

    def _compare(self) -> None:
        """Find what lasts, and correct what can be.

        :raises PlacementError: it does not answer
        """
        before, view = self._host.entries, self._host.view
        found = audit.list_providers(before.values(), view.tracked)
        holders = self._read(found & view.keys.keys())
        differences = audit.compare(
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
        self, differences: Mapping[str, audit.Difference]
    ) -> dict[str, audit.Difference]:
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
            found[uuid] = audit.blame(one, answers[uuid])
        return found

    def _read(
        self, rp_uuids: Iterable[str]
    ) -> dict[str, Mapping[str, Mapping[str, int]]]:
        """Return what is allocated of each provider that placement has."""
        holders = {}
        for rp_uuid in sorted(rp_uuids):
            with contextlib.suppress(exception.NotFound):
                holders[rp_uuid] = self._list_holders(rp_uuid)
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
        self, differences: Mapping[str, audit.Difference]
    ) -> list[audit.Difference]:
        """Return those that were there before, for long enough.

        What is in doubt begins anew, unless it was found before.
        """
        now = self._monotonic()
        self._since = {
            uuid: (one, self._find_since(uuid, one, now))
            for uuid, one in differences.items()
        }
        return [
            one
            for one, since in self._since.values()
            if since <= now - LASTING
        ]

    def _find_since(
        self, uuid: str, one: audit.Difference, now: float
    ) -> float:
        former, since = self._since.get(uuid, (one, now))
        is_same = all(
            getattr(former, name) == getattr(one, name)
            for name in ('moves', 'further', 'missing', 'surplus')
        )
        is_doubtful = former.is_in_doubt or one.is_in_doubt
        is_certain = uuid in self._found or not is_doubtful
        return since if is_same and is_certain else now

    def _forget_recent(self) -> None:
        """Begin anew with what may be over while nothing can be read."""
        self._since = {
            uuid: one
            for uuid, one in self._since.items()
            if uuid in self._found
        }

    def _correct_all(
        self, lasting: Collection[audit.Difference]
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
                    self._follow(uuid, moves, settled)
                    if one.further:
                        self._extend(uuid, one.further)
                except exception.Retriable:
                    raise
                except exception.ExtResourcesError as err:
                    reason = str(err).rstrip('.')
            elif one.moves or one.further:
                # The migration still has it where it was.
                reason = one.migration_uuid
            if reason or one.missing or one.surplus:
                yield _Found(difference=self._locate(one), reason=reason)

    def _locate(self, one: audit.Difference) -> audit.Difference:
        """Return it with whether placement has its server elsewhere.

        It is not corrected: Nova's own resources are not here either, and
        with ours alone, the next move would leave these behind.

        :raises PlacementError: it does not answer
        """
        if one.migration_uuid or not one.missing:
            return one
        given = self._read_allocations(one.entry.consumer_uuid).keys()
        own = {self._host.node.uuid, *self._host.view.keys}
        return dataclasses.replace(
            one, is_elsewhere=bool(given) and not given & own
        )

    def _report(self, before: tuple[alarm_mod.Problem, ...]) -> None:
        """Log each problem once."""
        problems, known = self.problems, frozenset(before)
        for one in problems:
            if one not in known:
                LOG.error(
                    'Host %(host)s: %(problem)s',
                    {'host': self._host.host, 'problem': one},
                )
        if problems != before:
            self._on_changed()
