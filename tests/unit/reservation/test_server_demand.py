# SPDX-License-Identifier: Apache-2.0

"""Tests of what a flavor needs."""

from collections.abc import Mapping

from nova_ext_resources.claims import extra_specs
from nova_ext_resources import exception
from nova_ext_resources.reservation import server_demand
from tests import base
from tests.unit import builders

GRAMMAR = extra_specs.Grammar(
    attributes={'code': '[0-9]+'}, enforcers={'rmd': {'policy': '[a-z]+'}}
)


def make(
    extra: Mapping[str, str] | None = None, **numbers: int
) -> server_demand.Demand:
    given = {'vcpus': 4, 'memory_mb': 1024, 'disk_gb': 10, **numbers}
    return server_demand.make_demand(
        extra_specs=extra or {}, grammar=GRAMMAR, **given
    )


class DemandTest(base.TestCase):
    def test_the_numbers_of_the_flavor_are_its_classes(self) -> None:
        found = make()

        self.assertEqual(
            {'VCPU': 4, 'MEMORY_MB': 1024, 'DISK_GB': 10},
            found.requirement.resources,
        )
        self.assertEqual((), found.cells)

    def test_nothing_of_a_class_is_not_asked_for(self) -> None:
        self.assertNotIn('DISK_GB', make(disk_gb=0).requirement.resources)

    def test_extra_specs_replace_the_numbers(self) -> None:
        found = make({'resources:VCPU': '2', 'resources:DISK_GB': '0'})

        self.assertEqual(
            {'VCPU': 2, 'MEMORY_MB': 1024}, found.requirement.resources
        )

    def test_dedicated_cpus_are_another_class(self) -> None:
        found = make({'hw:cpu_policy': 'dedicated', 'hw:numa_nodes': '2'})

        self.assertEqual((2, 2), found.cells)
        self.assertEqual(4, found.requirement.resources['PCPU'])
        self.assertNotIn('VCPU', found.requirement.resources)

    def test_a_policy_without_cpus_gives_none(self) -> None:
        found = make({'hw:cpu_policy': 'dedicated'}, vcpus=0)

        self.assertEqual((), found.cells)

    def test_cpus_that_cannot_be_planned_are_refused(self) -> None:
        dedicated = {'hw:cpu_policy': 'dedicated'}
        for extra in (
            {'hw:cpu_policy': 'mixed'},
            {**dedicated, 'hw:numa_nodes': '3'},
            {**dedicated, 'hw:numa_nodes': 'two'},
            {**dedicated, 'hw:numa_nodes': '2', 'hw:numa_cpus.0': '0'},
        ):
            self.assertRaises(exception.InvalidExtraSpec, make, extra)

    def test_needs_that_are_not_known_are_refused(self) -> None:
        for key, value in (
            ('pci_passthrough:alias', 'gpu:1'),
            ('accel:device_profile', 'fpga'),
            ('hw:mem_encryption', 'True'),
        ):
            with self.subTest(key):
                refused = self.assertRaises(
                    exception.InvalidExtraSpec, make, {key: value}
                )
                self.assertIn(key, str(refused))

        make({'hw:mem_encryption': 'false'})

    def test_groups_attributes_and_enforcers_are_kept(self) -> None:
        found = make(
            {
                f'resources_A:{builders.WAYS}': '4',
                f'resource:{builders.WAYS}:code': '1',
                'resource:rmd:policy': 'gold',
            }
        ).requirement

        self.assertEqual(['', '_A'], [one.suffix for one in found.groups])
        self.assertEqual({builders.WAYS: {'code': '1'}}, found.attributes)
        self.assertEqual({'rmd': {'policy': 'gold'}}, found.enforcers)

    def test_traits_belong_to_their_groups(self) -> None:
        found = make(
            {
                'trait:HW_CPU_X86_VMX': 'required',
                'trait_A:CUSTOM_ONE': 'required',
                'trait_A:CUSTOM_TWO': 'forbidden',
                'group_policy': 'isolate',
            }
        )

        self.assertEqual(
            {
                '': server_demand.Traits(
                    required=frozenset({'HW_CPU_X86_VMX'})
                ),
                '_A': server_demand.Traits(
                    required=frozenset({'CUSTOM_ONE'}),
                    forbidden=frozenset({'CUSTOM_TWO'}),
                ),
            },
            found.traits,
        )
        self.assertTrue(found.is_isolated)
        self.assertFalse(make({'group_policy': 'none'}).is_isolated)

    def test_the_largest_group_counts_for_one_provider(self) -> None:
        found = make(
            {
                f'resources_A:{builders.WAYS}': '4',
                f'resources_B:{builders.WAYS}': '3',
            }
        )

        self.assertEqual(4, found.largest[builders.WAYS])
        self.assertEqual(7, found.requirement.resources[builders.WAYS])

    def test_absurd_flavors_are_refused(self) -> None:
        for extra in (
            {'resources:VCPU': '-1'},
            {'resources:VCPU': '2147483648'},
            {'trait:CUSTOM_ONE': 'wanted'},
            {'resources:NO_SUCH_CLASS': '1'},
        ):
            self.assertRaises(exception.InvalidExtraSpec, make, extra)
        self.assertRaises(ValueError, make, vcpus=-1)
        self.assertRaises(ValueError, make, vcpus=0, memory_mb=0, disk_gb=0)
