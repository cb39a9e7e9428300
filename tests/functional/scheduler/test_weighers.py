# SPDX-License-Identifier: Apache-2.0

"""ExtendedResourcesWeigher in Nova's own weight handler."""

from typing import Any

from nova import objects
from nova.scheduler import weights as nova_weights

from tests.functional.scheduler import scheduling
from tests.unit import builders


class WeigherTestCase(scheduling.TestCase):
    def setUp(self) -> None:
        super().setUp()
        full = builders.make_view([0, 0], clos=6)
        self.empty = scheduling.make_host(builders.make_view(), host='empty')
        self.half = scheduling.make_host(
            _use(builders.make_view(), 0x7F), host='half'
        )
        self.full = scheduling.make_host(_use(full, 0x7FF), host='full')
        self.silent = scheduling.make_host(host='silent')

    def weigh(self, hosts: list[Any], spec: Any) -> list[str]:
        handler = nova_weights.HostWeightHandler()
        weighers = [
            cls()
            for cls in handler.get_matching_classes(
                ['nova_ext_resources.scheduler.weighers.all_weighers']
            )
        ]
        weighed = handler.get_weighed_objects(weighers, hosts, spec)
        return [one.obj.host for one in weighed]

    def test_servers_that_ask_are_spread(self) -> None:
        hosts = [self.full, self.half, self.empty]

        order = self.weigh(hosts, scheduling.make_spec())

        self.assertEqual(['empty', 'half', 'full'], order)

    def test_servers_that_ask_can_be_packed(self) -> None:
        self.configure(weigh_policies={builders.WAYS: 'pack'})
        self.configure(scarce_classes=[])

        order = self.weigh(
            [self.empty, self.half, self.full], scheduling.make_spec()
        )

        self.assertEqual(['full', 'half', 'empty'], order)

    def test_servers_that_do_not_ask_stay_away_from_scarce_hosts(
        self,
    ) -> None:
        order = self.weigh(
            [self.empty, self.half, self.silent], scheduling.make_spec({})
        )

        self.assertEqual(['silent', 'half', 'empty'], order)

    def test_a_malformed_request_is_weighed_as_one_that_does_not_ask(
        self,
    ) -> None:
        spec = scheduling.make_spec({f'resources:{builders.WAYS}': 'abc'})

        order = self.weigh([self.empty, self.half, self.silent], spec)

        self.assertEqual(['silent', 'half', 'empty'], order)

    def test_with_nothing_scarce_the_order_stays(self) -> None:
        self.configure(scarce_classes=[])

        order = self.weigh(
            [self.empty, self.silent, self.half], scheduling.make_spec({})
        )

        self.assertEqual(['empty', 'silent', 'half'], order)

    def test_a_silent_host_is_in_the_middle(self) -> None:
        order = self.weigh(
            [self.silent, self.full, self.empty], scheduling.make_spec()
        )

        self.assertEqual(['empty', 'silent', 'full'], order)

    def test_aggregates_override_the_multiplier(self) -> None:
        aggregate = objects.Aggregate(
            metadata={'ext_resources_weight_multiplier': '-1'}
        )
        hosts = [self.full, self.half, self.empty]
        for host in hosts:
            host.aggregates = [aggregate]

        order = self.weigh(hosts, scheduling.make_spec())

        self.assertEqual(['full', 'half', 'empty'], order)

    def test_a_multiplier_of_zero_switches_it_off(self) -> None:
        self.configure(ext_resources_weight_multiplier=0.0)

        order = self.weigh(
            [self.full, self.empty, self.half], scheduling.make_spec()
        )

        self.assertEqual(['full', 'empty', 'half'], order)


def _use(view: Any, taken: int) -> Any:
    """Return the view with these ways of both domains taken."""
    for rp_uuid in builders.DOMAINS:
        place = rp_uuid, builders.WAYS
        state = builders.make_ways(0x7FF & ~taken, taken).state
        view = view.with_state(place, state)
    return view
