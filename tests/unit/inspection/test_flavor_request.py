# SPDX-License-Identifier: Apache-2.0

"""Tests of what a flavor requests, and what is wrong with it."""

from collections.abc import Mapping
from typing import Any

from nova_ext_resources.claims import extra_specs
from nova_ext_resources.inspection import flavor_request
from nova_ext_resources.reservation import flavor
from tests import base
from tests.unit.inspection import trees

GRAMMAR = extra_specs.Grammar(attributes={'max': '[0-9]+'})


def read(
    image: Mapping[str, str] | None = None, vcpus: int = 2, **specs: Any
) -> flavor_request.FlavorRequest:
    """Read a flavor; ``__`` stands for a colon."""
    return flavor_request.read(
        flavor.Flavor(
            name='gold',
            vcpus=vcpus,
            extra_specs={
                key.replace('__', ':'): value for key, value in specs.items()
            },
        ),
        image or {},
        GRAMMAR,
    )


def make_query(request: flavor_request.FlavorRequest) -> list[tuple[str, str]]:
    assert request.demand is not None
    return flavor_request.make_query(request.demand)[1:]


class FlavorRequestTest(base.TestCase):
    def test_a_flavor_without_mistakes(self) -> None:
        request = read(
            resources__CUSTOM_LLC_WAYS='4', hw__cpu_policy='dedicated'
        )

        self.assertEqual((), request.mistakes)
        self.assertEqual((), request.notes)
        self.assertEqual(
            [('resources', 'CUSTOM_LLC_WAYS:4,PCPU:2')], make_query(request)
        )

    def test_one_host_alone(self) -> None:
        request = read(
            resources_A__CUSTOM_LLC_WAYS='4', resources_B__CUSTOM_NONE='1'
        )
        assert request.demand is not None
        tree = trees.make_tree()

        query = flavor_request.make_query(request.demand, tree)

        # Of a shared pool, it would leave out the resources.
        self.assertEqual(
            {'in_tree': trees.ROOT, 'in_tree_A': trees.ROOT},
            {key: value for key, value in query if 'in_tree' in key},
        )

    def test_every_mistake_is_named(self) -> None:
        request = read(
            resources__CUSTOM_LLC_WAYS='-1',
            resources_A__custom='1',
            trait__CUSTOM_X='maybe',
            group_policy='both',
        )

        self.assertIsNone(request.demand)
        self.assertEqual(4, len(request.mistakes))
        for one, wanted in zip(
            request.mistakes,
            ('=-1', 'custom=1', 'CUSTOM_X=maybe', 'group_policy=both'),
            strict=False,
        ):
            self.assertTrue(
                any(wanted in each for each in request.mistakes), one
            )

    def test_an_attribute_without_its_resource(self) -> None:
        [mistake] = read(resource__CUSTOM_LLC_WAYS__max='4').mistakes

        self.assertIn('add resources:CUSTOM_LLC_WAYS=AMOUNT', mistake)

    def test_several_groups_need_a_policy(self) -> None:
        groups: dict[str, Any] = {
            'resources_A__CUSTOM_X': '1',
            'resources_B__CUSTOM_X': '1',
        }

        [mistake] = read(**groups).mistakes

        self.assertIn('group_policy is missing', mistake)
        request = read(**groups, group_policy='isolate')
        self.assertEqual((), request.mistakes)
        self.assertEqual(
            [
                ('resources', 'VCPU:2'),
                ('resources_A', 'CUSTOM_X:1'),
                ('resources_B', 'CUSTOM_X:1'),
                ('group_policy', 'isolate'),
            ],
            make_query(request),
        )

    def test_traits_of_the_image_count_too(self) -> None:
        request = read(
            {
                'trait:CUSTOM_IMAGE': 'required',
                'hw_cpu_policy': 'dedicated',
                'os_type': 'linux',
            },
            trait__CUSTOM_FLAVOR='forbidden',
        )

        self.assertEqual(
            [
                ('resources', 'PCPU:2'),
                ('required', 'CUSTOM_IMAGE,!CUSTOM_FLAVOR'),
            ],
            make_query(request),
        )

    def test_what_is_not_counted_is_noted(self) -> None:
        request = read(pci_passthrough__alias='gpu:1', hw__cpu_policy='mixed')

        self.assertEqual((), request.mistakes)
        self.assertEqual(2, len(request.notes))
        self.assertEqual([('resources', 'VCPU:2')], make_query(request))

    def test_a_flavor_that_requests_nothing(self) -> None:
        request = read(vcpus=0)

        self.assertEqual(
            ('The flavor requests no resources.',), request.mistakes
        )

    def test_disabled_hosts_are_not_offered(self) -> None:
        demand = read().demand
        assert demand is not None

        self.assertEqual(
            ('root_required', '!COMPUTE_STATUS_DISABLED'),
            flavor_request.make_query(demand)[0],
        )
