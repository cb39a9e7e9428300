# SPDX-License-Identifier: Apache-2.0

"""Random walks of a host with a backend, whatever goes wrong with that.

What is to hold of all of them: once the host has looked at itself, nothing is
allocated and not applied without an alarm; and when everything is well again
and all servers are gone, nothing of them is left.
"""

import abc
from collections.abc import Collection, Mapping, Sequence
import tempfile
from typing import Any

import fixtures
from hypothesis import stateful
from hypothesis import strategies as st
from oslo_config import cfg

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources import exception
from nova_ext_resources.host.ledger import ledger
from nova_ext_resources.host import manager
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import requirements
from tests.unit.host import with_host

SERVERS = [f'00000000-0000-4000-8000-{number:012}' for number in range(7)]

servers = st.sampled_from(SERVERS)

#: The first one is what hypothesis tries most.
_KINDS = (classes.WAYS, classes.SHARED, classes.BURST)

#: Alarms that are about all servers of a host.
_OF_ALL = (alarm.ENFORCER_FAILED, alarm.RESCTRL_MISSING)


class Walk(stateful.RuleBasedStateMachine):
    """Servers come and go, the service is restarted, it looks at itself."""

    #: Ways of the shared pool, of any cache.
    SHARED_MASKS: Collection[int] = ()

    #: CPUs that are switched off.
    offline: frozenset[int] = frozenset()

    def __init__(self) -> None:
        super().__init__()
        self.stack = fixtures.Fixture()
        self.stack.setUp()
        self.stack.useFixture(fixtures.FakeLogger())
        folder = tempfile.TemporaryDirectory(dir=with_host.MEMORY)
        self.stack.addCleanup(folder.cleanup)
        self.ledger_path = f'{folder.name}/ledger.sqlite'
        self.conf = cfg.ConfigOpts()
        self.conf([], project='nova', default_config_files=[])
        self.set_up()
        self.host = self.make_host()

    @abc.abstractmethod
    def set_up(self) -> None:
        """Make a backend."""

    @abc.abstractmethod
    def load_backend(self, entries: Any) -> Sequence[Any]:
        """Load its inventory provider and its enforcer."""

    @abc.abstractmethod
    def mend(self) -> None:
        """End all that goes wrong."""

    @abc.abstractmethod
    def list_groups(self) -> list[tuple[frozenset[int], Mapping[int, int]]]:
        """Return CPUs and masks of each control group but the default one."""

    @abc.abstractmethod
    def list_left(self) -> list[str]:
        """Return what is left of servers."""

    def make_host(self) -> manager.HostManager:
        providers, enforcers = self.load_backend(lambda: host.entries)
        host: manager.HostManager = with_host.make_host(
            providers, enforcers, ledger.Ledger(self.ledger_path)
        )
        host.refresh()
        return host

    def teardown(self) -> None:
        try:
            self.look_at_itself()
            self.mend()
            for uuid in list(self.host.entries):
                self.host.release(uuid)
            self.look_at_itself()
            assert not self.host.entries
            assert not self.list_left(), self.list_left()
        finally:
            self.host.close()
            self.stack.cleanUp()

    @stateful.initialize()
    def begin(self) -> None:
        """Most of what may go wrong needs servers."""
        for uuid, kind in zip(SERVERS, _KINDS, strict=False):
            self.start(uuid, kind, 2, 0, '')

    @stateful.rule(
        uuid=servers,
        kind=st.sampled_from(_KINDS),
        ways=st.integers(1, 4),
        domain=st.integers(0, 1),
        ratio=st.sampled_from(['', '', '1.5']),
    )
    def start(
        self, uuid: str, kind: str, ways: int, domain: int, ratio: str
    ) -> None:
        amount = ways if kind == classes.WAYS else 1
        wishes = {'rmd': {'pstate_ratio': ratio}} if ratio else {}
        request = assignment.ClaimRequest(
            consumer_uuid=uuid,
            allocations={with_host.DOMAINS[domain]: {kind: amount}},
            requirement=requirements.Requirement(enforcers=wishes),
            cpus=frozenset({SERVERS.index(uuid) + 1 + 12 * domain}),
        )
        try:
            self.host.claim(request)
            self.host.apply(uuid)
        except exception.ExtResourcesError:
            self.release(uuid)

    @stateful.rule(uuid=servers)
    def release(self, uuid: str) -> None:
        try:
            self.host.release(uuid)
        except exception.ExtResourcesError:
            # The host goes on with it.
            assert self.host.entries[uuid].state is assignment.State.RELEASING

    @stateful.rule()
    def restart(self) -> None:
        self.host.close()
        self.host = self.make_host()
        self.host.reconcile(self.host.entries)
        self.check()

    @stateful.rule()
    def look_at_itself(self) -> None:
        self.host.refresh()
        self.host.heal()
        self.check()

    def check(self) -> None:
        """Nothing is allocated and not applied without an alarm."""
        problems = self.host.problems
        if any(one.alarm in _OF_ALL for one in problems):
            return
        told = {one.subject for one in problems}
        held: dict[int, list[int]] = {}
        for uuid in sorted(set(self.host.entries) - told):
            for domain, mask in self.find_own(self.host.entries[uuid]):
                held.setdefault(domain, []).append(mask)
        for masks in held.values():
            together = 0
            for mask in masks:
                assert not together & mask, masks
                together |= mask

    def find_own(self, entry: assignment.Entry) -> list[tuple[int, int]]:
        """Return domain and mask of what a server has for itself.

        :raises AssertionError: it does not have what was allocated
        """
        assert entry.state is assignment.State.APPLIED, entry
        used = (entry.cpus or frozenset()) - self.offline
        found = [ways for cpus, ways in self.list_groups() if used <= cpus]
        if not used:
            return []
        assert len(found) == 1, entry
        own = []
        for one in entry.assignments:
            if one.rp_key == classes.RDT:
                continue
            domain = classes.find_domain(one)
            mask = found[0][domain]
            if one.resource_class == classes.SHARED:
                assert mask in self.SHARED_MASKS, entry
                continue
            if one.resource_class == classes.WAYS:
                assert f'{mask:x}' == one.units['mask'], (entry, mask)
            assert mask.bit_count() >= one.amount, entry
            own.append((domain, mask))
        return own
