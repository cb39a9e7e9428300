# SPDX-License-Identifier: Apache-2.0

"""The extended resources of one host: the one object that a host runs.

Facts come from the inventory providers, truth about servers from the
ledger; both make the view on which claims are decided. ``refresh`` and the
enforcers do I/O; everything that Nova calls while it holds its semaphore
(``view``, ``stats``, ``providers``) reads a snapshot.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses
import functools
import threading

from oslo_log import log as logging

from nova_ext_resources.claims import base
from nova_ext_resources.claims import relocation
from nova_ext_resources.drivers import base as drivers_base
from nova_ext_resources.host.claims import enforcement as enforcement_mod
from nova_ext_resources.host.claims import manager
from nova_ext_resources.host.claims import memory
from nova_ext_resources.host.inventory import discovery
from nova_ext_resources.host.inventory import node_traits
from nova_ext_resources.host.inventory import quarantine
from nova_ext_resources.host.ledger import ledger as ledger_mod
from nova_ext_resources.host.reconcile import repair
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects.documents import holders
from nova_ext_resources.objects.documents import stats as stats_obj
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import host_view

LOG = logging.getLogger(__name__)

#: How often one refresh scans the host, while servers come and go.
_MAX_SCANS = 3

#: Seconds to wait for what is under way before the next scan.
_MAX_PAUSE = 2.0


class HostManager(manager.ClaimManager):
    """The life of claims on a host that is discovered and repaired.

    :param node: the compute node below which providers are published
    :param providers: inventory providers by name, in order
    :param spreads_pins: see :class:`.Constraints`
    :param list_guests: reads which servers run
    :raises InvalidConfiguration: a resource needs an enforcer and none of
        the enabled ones serves it
    :raises LedgerError: the ledger cannot be read
    """

    def __init__(
        self,
        *,
        host: str,
        node: host_provider.Node,
        providers: Mapping[str, drivers_base.InventoryProvider],
        trackers: Mapping[str, base.Tracker],
        tests: Mapping[str, base.ClaimTest],
        enforcers: Mapping[str, drivers_base.Enforcer],
        ledger: ledger_mod.Ledger,
        spreads_pins: bool = False,
        list_guests: drivers_base.GuestsReader = dict,
    ) -> None:
        for name, one in enforcers.items():
            write = functools.partial(ledger.write_note, name)
            one.restore(ledger.read_note(name), write)
        enforcement = enforcement_mod.Enforcement(host, enforcers, trackers)
        self._discovery = discovery.Discovery(
            providers,
            host,
            trackers=trackers,
            check=enforcement.check_definition,
            check_ready=enforcement.check_ready,
        )
        state = memory.StateMemory(
            host=host,
            node=node,
            trackers=trackers,
            entries=ledger.list_entries(),
            found=discovery.DiscoveredResources(missing=frozenset(providers)),
            resource_classes=frozenset(
                one.name
                for name in providers
                for one in self._discovery.list_definitions(name)
            ),
            constraints=host_constraints.Constraints(
                enforcers=frozenset(enforcers),
                tests=tuple(tests),
                classes=host_constraints.unite(
                    one.constraints for one in enforcers.values()
                ),
                spreads_pins=spreads_pins,
            ),
        )
        super().__init__(
            state, enforcement, ledger, host=host, tests=(*tests.values(),)
        )
        self.node = node
        self._tests = (*tests.values(),)
        self._repair = repair.HostRepair(self, trackers, list_guests)
        self._quarantine = quarantine.Quarantine(ledger.path, host, trackers)
        self._refreshing = threading.Lock()
        self._has_cut_stats = False

    # -- what Nova may ask at any time ---------------------------------

    @property
    def view(self) -> host_view.HostView:
        return self.state.view

    @property
    def found(self) -> discovery.DiscoveredResources:
        return self.state.found

    @property
    def published(self) -> frozenset[str]:
        """Return the uuids of all that this host has ever published."""
        return frozenset(self._published)

    @property
    def ledger_path(self) -> str:
        return self._ledger.path

    @property
    def has_cut_stats(self) -> bool:
        """Whether the scheduler sees totals only, see :meth:`stats`."""
        return self._has_cut_stats

    @property
    def ledger_status(self) -> ledger_mod.LedgerStatus:
        return self._ledger.status

    @property
    def problems(self) -> tuple[alarm.Problem, ...]:
        """What the last audit found and repair could not repair."""
        return self._repair.problems

    @property
    def recoveries(self) -> tuple[alarm.Problem, ...]:
        """What was lost lately, and is applied again."""
        return self._repair.recoveries.list_recent(self.entries)

    @property
    def applied(self) -> Mapping[str, frozenset[str]] | None:
        """Return enforcer -> uuids, see :class:`.repair.HostRepair`."""
        return self._repair.applied

    @property
    def unrecorded(self) -> frozenset[str]:
        """Return those with settings only: :class:`.repair.HostRepair`."""
        return self._repair.unrecorded

    @property
    def is_settled(self) -> bool:
        """Whether nothing waits to be repaired, or to be discovered."""
        return (
            not self.problems
            and not self.found.failures
            and all(
                entry.state is not assignment.State.RELEASING
                for entry in self.entries.values()
            )
        )

    def stats(self) -> str:
        """Return the document for Nova's host state."""
        text = stats_obj.encode(self._find_published_view())
        is_cut = stats_obj.is_cut(text)
        if is_cut and not self._has_cut_stats:
            LOG.warning(
                'Host %(host)s: the state of its providers and resource '
                'classes is too large for Nova to send to the scheduler '
                '(%(limit)d bytes). The scheduler gets only totals, and may '
                'choose this host for servers that the host then refuses',
                {'host': self.host, 'limit': stats_obj.MAX_BYTES},
            )
        self._has_cut_stats = is_cut
        return text

    def _find_published_view(self) -> host_view.HostView:
        """Return the view with the classes of which a new claim would fail.

        Those that an enforcer cannot apply now; and those that plugins define
        and have not found: placement may still have them from before.
        """
        view, found = self.view, self.found
        names = view.resource_classes
        refused: dict[str, str] = {}
        if not found.is_complete:
            reasons = alarm.RESOURCES_LEFT_OUT, alarm.DISCOVERY_FAILED
            absent = names - {name for _rp_uuid, name in view.tracked}
            refused = dict.fromkeys(absent, reasons[bool(found.missing)])
        refused |= self.enforcement.find_refused(names, self.problems)
        rules = dataclasses.replace(view.constraints, refused=refused)
        return dataclasses.replace(view, constraints=rules)

    def list_stats(self) -> dict[str, str]:
        """Return all that Nova is to carry, by its key.

        That is the document, and who holds what: as much as both have room.
        """
        text = self.stats()
        room = stats_obj.count_room(text)
        names = holders.encode(
            [*self.entries.values()], room, self.view.list_reserved()
        )
        return {stats_obj.KEY: text, holders.KEY: names}

    def providers(self) -> tuple[host_provider.Provider, ...]:
        """Return the tree that placement shall see. May write the ledger.

        :raises LedgerError: it cannot be remembered, so it must not be
            published
        """
        made = self.state.make_providers()
        record = node_traits.find_record(self.node)
        return self._record(made, {record: self.found.node_traits})

    def nodes(self) -> Mapping[str, tuple[host_provider.Provider, ...]]:
        """Return the trees below bare-metal nodes, by uuid of the node.

        May write the ledger.

        :raises LedgerError: see :meth:`providers`
        """
        trees: dict[str, list[host_provider.Provider]] = {}
        for node in self.found.nodes:
            made = trees.setdefault(node.uuid, [])
            made.extend(node.make_providers())
        return {uuid: self._record(made) for uuid, made in trees.items()}

    def _record(
        self,
        made: Iterable[host_provider.Provider],
        more: Mapping[str, frozenset[str]] | None = None,
    ) -> tuple[host_provider.Provider, ...]:
        """Return providers with all traits that they were published with.

        :param more: traits of others that are recorded with them
        :raises LedgerError: they cannot be remembered
        """
        made = tuple(made)
        known = self._remember(
            {**{one.rp_uuid: one.traits for one in made}, **(more or {})}
        )
        return tuple(
            dataclasses.replace(one, published_traits=known[one.rp_uuid])
            for one in made
        )

    def _remember(
        self, traits: Mapping[str, frozenset[str]]
    ) -> Mapping[str, frozenset[str]]:
        """Record what will be published; return all that ever was.

        :raises LedgerError: it cannot be remembered
        """
        nothing = frozenset[str]()
        known = {
            rp_uuid: self._published.get(rp_uuid, nothing) | some
            for rp_uuid, some in traits.items()
            if some or rp_uuid in self._published
        }
        new = {
            rp_uuid: some
            for rp_uuid, some in known.items()
            if self._published.get(rp_uuid) != some
        }
        if new:
            self._ledger.add_published(new)
            self._published = {**self._published, **new}
        return known

    @property
    def node_traits(self) -> host_provider.NodeTraits:
        """Return what Nova shall add to its compute node, or remove."""
        return node_traits.find(self.found, self._published, self.node)

    def plan_relocation(
        self,
        movers: Sequence[relocation.Mover],
        allocated: Mapping[str, host_view.Amounts],
    ) -> relocation.RelocationPlan:
        """Choose where consumers get what they have on the compute node.

        :param allocated: see :meth:`.StateMemory.plan_relocation`
        """
        return self.state.plan_relocation(
            movers, allocated=allocated, tests=self._tests
        )

    # -- what the host's loop does ---------------------------------------

    def refresh(self) -> None:
        """Discover the host and make the view of it. Does I/O."""
        with self._refreshing:
            for left in reversed(range(_MAX_SCANS)):
                before = self.entries
                found = self._quarantine.apply(
                    self._discovery.scan(), before.values()
                )
                is_moving = self._servers.is_any_locked
                if not (left and is_moving) and self.state.rebuild(
                    found, before, may_refuse=bool(left)
                ):
                    return
                self._servers.wait_until_free(_MAX_PAUSE)

    def clear(self, consumer_uuid: str) -> None:
        """Release what is applied for a server without an entry. Does I/O.

        Enforcers are not asked what that is: what they list is for the audit,
        which runs in a thread of its own.

        :raises EnforcementFailed: it may still be applied
        """
        self.release_orphan(consumer_uuid, self.enforcement.names)
        self.refresh()

    def heal(self, waiting: frozenset[str] | None = frozenset()) -> None:
        """Audit the host, and repair what can be repaired.

        :param waiting: see :class:`.rules.drift.Observation`
        """
        self._ledger.check()
        self._repair.run(waiting=waiting)

    def reconcile(
        self,
        live: Iterable[str],
        *,
        before: Mapping[str, assignment.Entry] | None = None,
        waiting: frozenset[str] | None = frozenset(),
        hosts: Mapping[str, str] | None = None,
    ) -> None:
        """Do the same, and release servers that are gone.

        :param live: uuids of all consumers that Nova or the hypervisor has
            on this host: servers, and moves in progress
        :param before: the entries before anyone was asked for these; what
            has been claimed since is left alone
        :param waiting: see :class:`.rules.drift.Observation`
        :param hosts: likewise
        """
        self._repair.run(
            frozenset(live),
            self.entries if before is None else before,
            waiting,
            hosts,
        )
