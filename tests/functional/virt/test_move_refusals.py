# SPDX-License-Identifier: Apache-2.0

"""Resizes and cold migrations that no destination takes."""

from collections.abc import Callable
from typing import Any

import fixtures
from nova import context as nova_context
from nova import objects

from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from tests.functional.virt import breaking
from tests.functional.virt import moving

State = assignment.State


def make_shortfall(host: str) -> exception.CapacityExceeded:
    return exception.CapacityExceeded(
        host=host,
        consumer_uuid='(server)',
        shortfalls=[
            exception.Shortfall(
                rp_uuid='',
                resource_class='CUSTOM_SEAT',
                requested=4,
                available=1,
                reason='somebody sits there',
            )
        ],
    )


def make_bug(_host: str) -> KeyError:
    return KeyError('seat 7')


def make_invalid(_host: str) -> exception.InvalidExtraSpec:
    return exception.InvalidExtraSpec(
        key='resources:CUSTOM_SEAT', value='-1', reason='it is below zero'
    )


class DestinationTest(breaking.BreakingTestCase):
    """Nova's claim on the destination fails, and another host is tried."""

    HOSTS = ('host1', 'host2', 'host3')

    def refuse(
        self,
        hosts: list[str],
        times: int,
        error: Callable[[str], Exception] = make_shortfall,
    ) -> list[str]:
        """Let the next claims for moves be refused; return by which hosts."""
        refused: list[str] = []

        def wrap(name: str, claim: Callable[..., Any]) -> Callable[..., Any]:
            def refuse(request: Any, *, is_move: bool, **options: Any) -> Any:
                if not is_move or len(refused) >= times:
                    return claim(request, is_move=is_move, **options)
                refused.append(name)
                raise error(name)

            return refuse

        for name in hosts:
            host = self.get_host(name)
            self.useFixture(
                fixtures.MockPatchObject(host, 'claim', wrap(name, host.claim))
            )
        return refused

    def assert_nothing_is_open(self) -> None:
        """Nova counts nothing on the hosts that have refused."""
        for host in self.HOSTS:
            manager = self.services[host].manager
            # Nova counts these since its release 34.
            pending = getattr(manager, '_pending_dest_resizes', {})
            self.assertEqual({}, pending)
            self.assertEqual({}, manager.rt.tracked_migrations)

    def test_another_host_is_tried(self) -> None:
        refused = self.refuse(['host2', 'host3'], times=1)

        server = self.resize(self.server, self.large)

        (first,) = refused
        (second,) = {'host2', 'host3'} - {first}
        self.assertEqual(second, server['OS-EXT-SRV-ATTR:host'])
        self.assert_agreement(
            **{
                'host1': {self.find_migration(server).uuid: State.PARKED},
                second: {self.uuid: State.APPLIED},
            }
        )

    def test_without_another_host_the_server_stays_as_it_is(self) -> None:
        refused = self.refuse(['host2', 'host3'], times=2)

        self.begin(self.large)
        self._wait_for_migration_status(self.server, ['error'])
        server = self._wait_for_state_change(self.server, 'ACTIVE')

        self.assertEqual({'host2', 'host3'}, set(refused))
        self.assertEqual('host1', server['OS-EXT-SRV-ATTR:host'])
        self.assertEqual(self.server['flavor'], server['flavor'])
        self.assert_nothing_is_open()
        self.assert_only_on('host1')
        instance = moving.find_instance(self.uuid)
        self.assertIsNone(instance.migration_context)
        reasons = [
            one.message
            for one in objects.InstanceFaultList.get_by_instance_uuids(
                nova_context.get_admin_context(), [self.uuid]
            )
            if 'somebody sits there' in one.message
        ]
        self.assertEqual(2, len(reasons), reasons)
        told = self.list_reasons(self.server, 'ext_resources_claim:')
        self.assertEqual(2, len(told))
        for reason in told:
            self.assertIn('This host cannot now serve', reason)
            self.assertIn('somebody sits there', reason)

    def test_a_plugin_with_a_bug_leaves_the_server_as_it_is(self) -> None:
        """Also where Nova tries no other host."""
        self.flags(max_attempts=1, group='scheduler')
        refused = self.refuse(['host2', 'host3'], times=2, error=make_bug)

        self.begin(self.large)
        self._wait_for_migration_status(self.server, ['error'])
        server = self._wait_for_server_parameter(
            self.server, {'OS-EXT-STS:task_state': None}
        )

        self.assertEqual('ACTIVE', server['status'])
        self.assertEqual(1, len(refused), refused)
        self.assert_nothing_is_open()
        self.assert_only_on('host1')
        (fault,) = objects.InstanceFaultList.get_by_instance_uuids(
            nova_context.get_admin_context(), [self.uuid]
        )
        self.assertIn(
            "This host has failed unexpectedly: KeyError: 'seat 7'",
            fault.message,
        )
        self.assertRegex(
            self.stdlog.logger.output,
            rf'Host {refused[0]}: the claim .* failed unexpectedly.*\n'
            'Traceback',
        )

    def test_a_malformed_flavor_is_tried_on_one_host_only(self) -> None:
        """It would be refused on each, and the reason is the same."""
        refused = self.refuse(['host2', 'host3'], times=2, error=make_invalid)

        self.begin(self.large)
        self._wait_for_migration_status(self.server, ['error'])
        self._wait_for_server_parameter(
            self.server, {'OS-EXT-STS:task_state': None}
        )

        server = self.admin_api.get_server(self.uuid)
        self.assertEqual('ACTIVE', server['status'])
        self.assertEqual(1, len(refused), refused)
        self.assert_nothing_is_open()
        self.assert_only_on('host1')
        (told,) = self.list_reasons(self.server, 'ext_resources_claim:')
        self.assertIn('it is below zero', told)
        # Nova's own event has it too.
        self.assertIn(
            'it is below zero',
            '\n'.join(self.list_reasons(self.server, 'compute_prep_resize')),
        )

    def test_a_source_that_cannot_be_told_takes_the_claim_back(self) -> None:
        for host in ('host2', 'host3'):
            rpc = self.services[host].manager.compute_rpcapi

            def fail(*_args: Any, **_kwargs: Any) -> None:
                raise RuntimeError('no message bus')

            self.useFixture(
                fixtures.MockPatchObject(rpc, 'resize_instance', fail)
            )

        self.begin(self.large)
        self._wait_for_migration_status(self.server, ['error'])
        # Whether Nova calls it ACTIVE or ERROR.
        self._wait_for_server_parameter(
            self.server, {'OS-EXT-STS:task_state': None}
        )

        self.assert_only_on('host1')
        self.assert_nothing_is_open()
