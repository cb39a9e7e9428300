# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import provider
from nova_ext_resources.objects import requirement as requirement_obj
from nova_ext_resources import rdt
from tests.unit.handover import test_run
from tests.unit.handover import with_both
from tests.unit import with_host

BURST = '44444444-4444-4444-8444-444444444444'


class PoolsTest(with_both.HandOverTestCase):
    """Six guaranteed ways, and three for bursts."""

    RESERVED_WAYS = 2
    RMD = {'burst_ways': 3}  # noqa: RUF012
    RESCTRL = {'burst_ways': 3}  # noqa: RUF012

    #: Server, what it has of the first domain, and what its flavor adds.
    SERVERS: tuple[tuple[str, dict[str, int], dict[str, dict[str, str]]], ...]
    SERVERS = ((BURST, {rdt.BURST: 1}, {rdt.BURST: {'max': '2'}}),)

    def fill(self, name: str) -> dict[str, assignment.Entry]:
        super().fill(name)
        host = self.make_host(name)
        for number, (uuid, held, attributes) in enumerate(self.SERVERS):
            self.start(
                host,
                uuid,
                cpus=frozenset({4 + number}),
                allocations={with_host.DOMAINS[0]: held},
                requirement=requirement_obj.Requirement(attributes=attributes),
            )
        host.close()
        return self.read_entries()

    def test_all_pools_go_to_and_fro(self) -> None:
        before = self.fill('rmd')

        for source, target in (*test_run.BOTH_WAYS, *test_run.BOTH_WAYS):
            self.hand_over(source, target)

            self.assert_all_at(target, before)
            (burst,) = rdt.pick(
                self.read_entries()[BURST].assignments, rdt.BURST
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


def list_capacities(one: provider.Provider) -> dict[str, int]:
    return {
        name: what for name, (_, what) in test_run.list_totals(one).items()
    }
