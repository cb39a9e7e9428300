# SPDX-License-Identifier: Apache-2.0

import tempfile
from typing import Any

import hypothesis
from hypothesis import stateful
from hypothesis import strategies as st
from oslo_config import cfg

from nova_ext_resources import exception
from nova_ext_resources.host.ledger import ledger
from nova_ext_resources.host import manager
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import host_view
from nova_ext_resources import plugins
from tests.unit.host import with_host
from tests.unit import strategies

WAYS = with_host.WAYS
CLOS = with_host.CLOS
DOMAINS = with_host.DOMAINS

SERVERS = [f'00000000-0000-4000-8000-{number:012}' for number in range(9)]

servers = st.sampled_from(SERVERS)


class HostMachine(stateful.RuleBasedStateMachine):
    """Anything that may happen to a host, in any order.

    The model is what each server was told that it got.
    """

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(dir=with_host.MEMORY)
        conf = cfg.ConfigOpts()
        conf([], project='nova', default_config_files=[])
        self.plugins = {
            namespace: with_host.load(conf, namespace, name, **options)
            for namespace, name, options in (
                (
                    plugins.INVENTORY_PROVIDERS,
                    'fake',
                    {'reserved_ways': 1, 'num_closids': 8},
                ),
                (plugins.ENFORCERS, 'noop', {}),
            )
        }
        self.told: dict[str, assignment.Entry] = {}
        self.host = self.start()
        self.empty = self.host.view

    def start(self) -> manager.HostManager:
        host = with_host.make_host(
            self.plugins[plugins.INVENTORY_PROVIDERS],
            self.plugins[plugins.ENFORCERS],
            ledger.Ledger(f'{self.folder.name}/ledger.sqlite'),
        )
        host.refresh()
        return host

    def teardown(self) -> None:
        for uuid in list(self.told):
            self.host.release(uuid)
        try:
            assert self.host.view == self.empty
        finally:
            self.host.close()
            self.folder.cleanup()

    @stateful.rule(
        uuid=servers,
        ways=st.integers(1, 6),
        domain=st.integers(0, 1),
        is_misplaced=st.booleans(),
        has_class=st.booleans(),
        is_running=st.booleans(),
    )
    def claim(
        self,
        uuid: str,
        ways: int,
        domain: int,
        is_misplaced: bool,
        has_class: bool,
        is_running: bool,
    ) -> None:
        other = domain ^ is_misplaced
        cpus = frozenset({SERVERS.index(uuid) + 1 + 12 * other})
        allocations: dict[str, dict[str, int]] = {
            DOMAINS[domain]: {WAYS: ways}
        }
        if has_class:
            allocations[with_host.RDT] = {CLOS: 1}
        request = with_host.make_claim(
            uuid, ways, cpus=cpus, allocations=allocations
        )
        can = self.can_take(uuid, other, ways)
        try:
            entry = self.host.claim(request, is_running=is_running)
        except exception.CapacityExceeded:
            assert not can
            if not is_running:
                self.told.pop(uuid, None)
        else:
            assert can
            held = {one.rp_uuid: one for one in entry.assignments}
            assert set(held) == {DOMAINS[other], with_host.RDT}
            assert held[DOMAINS[other]].amount == ways
            # Others may have what the server had before.
            self.host.settle(entry)
            self.told[uuid] = entry

    def can_take(self, uuid: str, domain: int, ways: int) -> bool:
        """Say it from the model alone."""
        others = {u: one for u, one in self.told.items() if u != uuid}
        taken = 0
        for mask in with_host.masks_of(others).get(DOMAINS[domain], []):
            taken |= mask
        free = 0x7FE & ~taken
        return len(others) < 6 and bitmask.has_run(free, ways)

    @stateful.rule(uuid=servers)
    def apply(self, uuid: str) -> None:
        self.host.apply(uuid)
        if uuid in self.told:
            self.told[uuid] = self.host.entries[uuid]
            assert self.told[uuid].state is assignment.State.APPLIED

    @stateful.rule(uuid=servers)
    def release(self, uuid: str) -> None:
        before = self.host.view
        entry = self.told.pop(uuid, None)
        self.host.release(uuid)
        if entry is None:
            assert self.host.view == before

    @stateful.rule()
    def refresh(self) -> None:
        before = self.host.view
        self.host.refresh()
        assert self.host.view == before

    @stateful.rule(gone=st.sets(servers))
    def restart(self, gone: set[str]) -> None:
        self.host.close()
        self.host = self.start()
        self.host.reconcile(set(self.told) - gone)
        for uuid in gone:
            self.told.pop(uuid, None)
        for uuid, entry in self.told.items():
            found = self.host.entries[uuid]
            assert found.state is assignment.State.APPLIED
            assert key(found) == key(entry)
            self.told[uuid] = found

    @stateful.invariant()
    def nothing_overlaps_and_nothing_is_torn(self) -> None:
        for held in with_host.masks_of(self.host.entries).values():
            together = 0
            for mask in held:
                assert bitmask.is_contiguous(mask)
                assert not together & mask
                together |= mask

    @stateful.invariant()
    def everybody_has_what_they_were_told(self) -> None:
        assert self.host.entries == self.told
        written = self.host._ledger.list_entries()
        assert {u: key(e) for u, e in written.items()} == {
            u: key(e) for u, e in self.told.items()
        }

    @stateful.invariant()
    def the_view_is_the_sum_of_the_entries(self) -> None:
        masks = with_host.masks_of(self.told)
        for rp_uuid in DOMAINS:
            state: host_view.TrackerState = self.host.view.tracked[
                rp_uuid, WAYS
            ].state
            taken = bitmask.parse_mask(str(state.to_dict()['t']))
            assert taken == sum(masks.get(rp_uuid, []))
        clos = self.host.view.tracked[with_host.RDT, CLOS].state
        assert clos.used == len(self.told)


def key(entry: assignment.Entry) -> Any:
    """Return what must survive a restart, in no order."""
    held = sorted(
        (one.rp_uuid, one.amount, one.is_allocated, str(dict(one.units)))
        for one in entry.assignments
    )
    return held, entry.cpus


# A run is many steps long.
HostMachine.TestCase.settings = hypothesis.settings(
    max_examples=strategies.EXAMPLES // 5, stateful_step_count=25
)

HostMachineTest = HostMachine.TestCase
