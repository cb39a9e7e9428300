# SPDX-License-Identifier: Apache-2.0

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import requirements
from tests.unit.host.handover import test_run
from tests.unit.host.handover import with_both
from tests.unit.host import with_host

BURST = '44444444-4444-4444-8444-444444444444'
SHARED = '55555555-5555-4555-8555-555555555555'
ALSO_SHARED = '66666666-6666-4666-8666-666666666666'

#: What RMD has in place of the two.
SHARED_WORKLOAD = f'{SHARED}=5 {ALSO_SHARED}=6'


class PoolsTestCase(with_both.HandOverTestCase):
    """Five guaranteed ways, three for bursts, a shared one.

    Two are left to devices by the kernel, which RMD would sell.
    """

    SETTINGS = {  # noqa: RUF012
        'pools': {'os': 1, 'guarantee': 5, 'besteffort': 3, 'shared': 1}
    }
    RESERVED_WAYS = 2
    RMD = {'burst_ways': 3, 'shared_servers': 4}  # noqa: RUF012
    RESCTRL = {  # noqa: RUF012
        'burst_ways': 3,
        'shared_ways': 1,
        'shared_servers': 4,
    }

    #: Server, what it has of the first domain, and what its flavor adds.
    SERVERS: tuple[tuple[str, dict[str, int], dict[str, dict[str, str]]], ...]
    SERVERS = (
        (BURST, {classes.BURST: 1}, {classes.BURST: {'max': '2'}}),
        (SHARED, {classes.SHARED: 1}, {}),
        (ALSO_SHARED, {classes.SHARED: 1}, {}),
    )

    def fill(self, name: str) -> dict[str, assignment.Entry]:
        super().fill(name)
        host = self.make_host(name)
        for number, (uuid, held, attributes) in enumerate(self.SERVERS):
            self.start(
                host,
                uuid,
                cpus=frozenset({4 + number}),
                allocations={with_host.DOMAINS[0]: held},
                requirement=requirements.Requirement(attributes=attributes),
            )
        host.close()
        return self.read_entries()

    def list_at_rmd(self) -> dict[str, dict[int, int]]:
        """And with the members of the pool by name."""
        found = super().list_at_rmd()
        pool = found.pop(SHARED_WORKLOAD, {})
        for member in (SHARED, ALSO_SHARED) if pool else ():
            found[member] = pool
        return found

    def list_at_resctrl(self) -> dict[str, dict[int, int]]:
        found = super().list_at_resctrl()
        pool = found.pop('shared', {})
        if pool:
            cpus = set(self.kernel.list_groups()['nova-shared']['cpus'])
            self.assertEqual({5, 6}, cpus)
        for member in (SHARED, ALSO_SHARED) if pool else ():
            found[member] = pool
        return found


class PoolsTest(PoolsTestCase):
    def test_all_pools_go_to_and_fro(self) -> None:
        before = self.fill('rmd')

        for source, target in (*test_run.BOTH_WAYS, *test_run.BOTH_WAYS):
            self.hand_over(source, target)

            self.assert_all_at(target, before)
            (burst,) = classes.pick(
                self.read_entries()[BURST].assignments, classes.BURST
            )
            self.assertEqual(2, burst.units['max'])

    def test_capacities_of_all_pools_are_the_same(self) -> None:
        trees = []
        for name in ('rmd', 'resctrl'):
            host = self.make_host(name)
            trees.append({one.rp_uuid: one for one in host.providers()})
            host.close()

        for rp_uuid, one in trees[0].items():
            other = list_capacities(trees[1][rp_uuid])
            self.assertEqual(list_capacities(one), other, one.name)


class KilledPoolsTest(PoolsTestCase, test_run.KilledTestCase):
    def test_going_on_or_back_from_rmd_ends_where_it_should(self) -> None:
        self.check_all('rmd', 'resctrl', then=('rmd', 'resctrl'))

    def test_going_on_or_back_from_resctrl_ends_where_it_should(self) -> None:
        self.check_all('resctrl', 'rmd', then=('rmd', 'resctrl'))


def list_capacities(one: host_provider.Provider) -> dict[str, int]:
    return {
        name: what for name, (_, what) in test_run.list_totals(one).items()
    }
