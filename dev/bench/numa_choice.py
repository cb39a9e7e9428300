# SPDX-License-Identifier: Apache-2.0

"""How many boots are saved when Nova pins near the ways of a server.

Servers come to one host with two caches, of the size and load that a random
walk gives, and leave. What the scheduler passes, Nova's own code pins: to the
cell that our claim asks for, and, as the peer, to any. Then the host decides:
the ways lie at the pins, or are taken there instead, or the boot is lost.
"""

from collections.abc import Iterable
import random
import types
from typing import Any, NamedTuple

import nova.conf
from nova import exception as nova_exc
from nova import objects
from nova.virt import hardware

from dev.bench.harness import fleet
from dev.bench.harness import rows as rows_mod
from nova_ext_resources.claims import decide
from nova_ext_resources.claims import extra_specs
from nova_ext_resources.claims.schedule import candidates
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_view
from nova_ext_resources import plugins
from nova_ext_resources.scheduler import request
from nova_ext_resources.virt.hooks import numa_choice

ARRIVALS = 4000
SEED = 1

#: How many servers are there on average before some cannot come.
_LIVES = 12.0

#: Dedicated CPUs, and ways, of which some servers have none.
_CPUS = (2, 2, 4, 4, 8)
_WAYS = (0, 1, 2, 3, 4, 6)

#: At most this part of the peer's boots may be lost.
_MAX_LOST = 0.5


class Counts(NamedTuple):
    """What became of the boots that the scheduler has passed."""

    passed: int = 0
    moved: int = 0
    lost: int = 0


class _Server(NamedTuple):
    cpus: int
    ways: int
    ends_at: float


class _Held(NamedTuple):
    """What a server has on its host: of Nova, and of ours."""

    topology: Any
    taken: tuple[assignment.Assignment, ...]
    ends_at: float


def run() -> list[rows_mod.Row]:
    nova.conf.CONF([], project='nova', default_config_files=[])
    objects.register_all()
    ours, peer = (count(is_steered) for is_steered in (True, False))
    print(f'passed by the scheduler: ours {ours.passed}, peer {peer.passed}')
    return [
        _make_row('lost on the host', ours.lost, peer.lost, _MAX_LOST),
        _make_row('ways taken elsewhere', ours.moved, peer.moved, None),
    ]


def _make_row(
    what: str, ours: int, peer: int, goal: float | None
) -> rows_mod.Row:
    return rows_mod.compare_pairs(
        f'{what}, of {ARRIVALS} boots, steered : not steered',
        [(ours, peer)],
        goal,
        'boots',
    )


def count(is_steered: bool, arrivals: int = ARRIVALS) -> Counts:
    """Play one walk; it is the same for both."""
    host, counts = _Host(is_steered), Counts()
    for now, server in enumerate(_list_arrivals(arrivals)):
        host.remove_until(now)
        counts = host.boot(server, counts)
    return counts


def _list_arrivals(arrivals: int) -> Iterable[_Server]:
    chosen = random.Random(SEED)
    for now in range(arrivals):
        yield _Server(
            cpus=chosen.choice(_CPUS),
            ways=chosen.choice(_WAYS),
            ends_at=now + chosen.expovariate(1 / _LIVES),
        )


class _Host:
    """One host of the fleet, empty at first."""

    def __init__(self, is_steered: bool) -> None:
        self._trackers = plugins.load_trackers()
        self._tests = plugins.load_claim_tests(self._trackers)
        self._view = fleet.make_empty_view()
        self._topology = fleet.make_topology()
        self._held: list[_Held] = []
        tracker = types.SimpleNamespace(
            **dict.fromkeys(
                (
                    'instance_claim',
                    'live_migration_claim',
                    'rebuild_claim',
                    'resize_claim',
                ),
                self._pin,
            )
        )
        if is_steered:
            text = numa_choice.mark(self._topology._to_json(), self._view)
            self._topology = objects.NUMATopology.obj_from_db_obj(text)
            numa_choice.watch(tracker, lambda: self._view)
        self._claim = tracker.instance_claim

    def remove_until(self, now: float) -> None:
        for one in [*self._held]:
            if one.ends_at <= now:
                self._held.remove(one)
                self._use(one.topology, is_free=True)
                self._give(one.taken)

    def boot(self, server: _Server, counts: Counts) -> Counts:
        """Schedule, pin and claim; return the counts with this boot."""
        spec = fleet.make_request(
            {f'resources:{fleet.LLC}': str(server.ways)}
            if server.ways
            else {},
            server.cpus,
        )
        candidate = self._schedule(server, spec)
        if candidate is None:
            return counts
        counts = counts._replace(passed=counts.passed + 1)
        try:
            topology = self._claim(
                spec, candidate['allocations'], self._make_limits()
            )
        except nova_exc.ComputeResourcesUnavailable:
            return counts._replace(lost=counts.lost + 1)
        decision = self._decide(candidate, spec, topology)
        if not decision.fits:
            return counts._replace(lost=counts.lost + 1)
        self._view = decision.view
        self._use(topology)
        self._held.append(_Held(topology, decision.taken, server.ends_at))
        return counts._replace(moved=counts.moved + bool(decision.moves))

    # -- the scheduler -----------------------------------------------------

    def _schedule(self, server: _Server, spec: Any) -> Any:
        """Return the candidate that is claimed; None where none is passed."""
        if self._fit(spec, self._make_limits()) is None:
            return None
        if not server.ways:
            return {'allocations': {}}
        options = [
            fleet.make_candidate('root', rp_uuid, server.ways)
            for rp_uuid, name in self._view.tracked
            if name == fleet.LLC
        ]
        judge = candidates.Judge(
            self._trackers,
            self._tests,
            request.find_sizes(spec),
            extra_specs.parse(spec.flavor.extra_specs, plugins.load_grammar()),
        )
        document = stats.decode(stats.encode(self._view))
        assert document is not None
        state = types.SimpleNamespace(numa_topology=self._topology)
        kept = judge.choose(
            document, options, lambda: request.find_free(state)
        )
        return kept[0] if kept else None

    @staticmethod
    def _make_limits() -> dict[str, Any]:
        numa = objects.NUMATopologyLimits(
            cpu_allocation_ratio=1.0, ram_allocation_ratio=1.0
        )
        return {'numa_topology': numa}

    # -- Nova on the host --------------------------------------------------

    def _fit(self, spec: Any, limits: dict[str, Any]) -> Any:
        return hardware.numa_fit_instance_to_host(
            self._topology,
            spec.numa_topology.obj_clone(),
            limits=limits['numa_topology'],
            provider_mapping=None,
        )

    def _pin(self, instance: Any, allocations: Any, limits: Any) -> Any:
        """Do what Nova's claim does; the request stands for the server."""
        found = self._fit(instance, limits)
        if found is None:
            raise nova_exc.ComputeResourcesUnavailable(reason='no room')
        return found

    def _use(self, topology: Any, *, is_free: bool = False) -> None:
        self._topology = hardware.numa_usage_from_instance_numa(
            self._topology, topology, free=is_free
        )

    # -- ours --------------------------------------------------------------

    def _decide(
        self, candidate: Any, spec: Any, topology: Any
    ) -> decide.Decision:
        return decide.decide(
            self._view,
            assignment.ClaimRequest(
                consumer_uuid='',
                allocations={
                    rp_uuid: one['resources']
                    for rp_uuid, one in candidate['allocations'].items()
                },
                requirement=extra_specs.parse(
                    spec.flavor.extra_specs, plugins.load_grammar()
                ),
                cpus=frozenset(
                    cpu
                    for cell in topology.cells
                    for cpu in cell.cpu_pinning.values()
                ),
            ),
            trackers=self._trackers,
            tests=[self._tests[one] for one in decide.name_tests(self._view)],
        )

    def _give(self, taken: Iterable[assignment.Assignment]) -> None:
        for one in taken:
            place: host_view.Place = one.rp_uuid, one.resource_class
            tracked = self._view.tracked[place]
            state = self._trackers[tracked.tracker].free(
                tracked.state, one.amount, one.units
            )
            self._view = self._view.with_state(place, state)
