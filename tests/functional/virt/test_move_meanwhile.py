# SPDX-License-Identifier: Apache-2.0

"""What happens to a server and its hosts while it is on its way."""

import threading
from typing import Any

import fixtures
from nova.tests.functional.api import client as api_client

from nova_ext_resources.objects import assignment
from tests.functional.virt import base
from tests.functional.virt import breaking

State = assignment.State


class MeanwhileTest(breaking.BreakingTestCase):
    """What may happen while a server is on its way."""

    def test_either_host_restarts_before_it_is_confirmed(self) -> None:
        self.resize(self.server, self.large)
        migration = self.find_migration(self.server).uuid

        for host in self.HOSTS:
            self.restart(host)
            self.compare(host)

        self.assert_agreement(
            host1={migration: State.PARKED}, host2={self.uuid: State.APPLIED}
        )
        self.revert(self.server)
        self.assert_only_on('host1')

    def test_what_could_not_be_kept_is_there_for_the_way_back(self) -> None:
        self.fail_to_park(times=1)
        self.resize(self.server, self.large)

        self.restart('host1')

        self.assertEqual([self.uuid], [*self.get_host('host1').entries])
        self.revert(self.server)
        self.assert_only_on('host1')

    def test_a_server_that_is_off_moves_with_what_it_has(self) -> None:
        self._stop_server(self.server)

        self.resize(self.server, self.large)

        self.assert_agreement(
            host1={self.find_migration(self.server).uuid: State.PARKED},
            host2={self.uuid: State.APPLIED},
        )
        self.act(self.server, 'confirmResize')
        self._wait_for_state_change(self.server, 'SHUTOFF')
        self.assert_only_on('host2')

    def test_the_destination_restarts_before_the_guest_comes(self) -> None:
        move = self.useFixture(breaking.WaitingMove())
        self.begin(self.large)
        self.assertTrue(move.began.wait(base.SECONDS))

        self.assert_no_difference(*self.HOSTS)
        self.restart('host2')
        self.compare('host2')
        self.assertEqual([self.uuid], [*self.get_host('host2').entries])
        self.assert_no_difference(*self.HOSTS)

        move.go.set()
        self._wait_for_state_change(self.server, 'VERIFY_RESIZE')
        self.assert_agreement(
            host1={self.find_migration(self.server).uuid: State.PARKED},
            host2={self.uuid: State.APPLIED},
        )

    def test_a_destination_that_is_killed_releases_what_it_claimed(
        self,
    ) -> None:
        """Before it told the source: Nova leaves the server its task."""
        told = threading.Event()

        def die(*_args: Any, **_kwargs: Any) -> None:
            told.set()
            raise base.Killed

        rpc = self.services['host2'].manager.compute_rpcapi
        self.useFixture(fixtures.MockPatchObject(rpc, 'resize_instance', die))
        # Nor does the process take its claim back.
        self.useFixture(
            fixtures.MockPatchObject(self.get_ext('host2'), 'release')
        )
        self.begin(self.large)
        self.assertTrue(told.wait(base.SECONDS))
        self.compare('host2')
        self.assertEqual([self.uuid], [*self.get_host('host2').entries])

        self.restart('host1')
        self.compare('host2')

        self.assertEqual({}, self.get_host('host2').entries)
        self.assertEqual([self.uuid], [*self.get_host('host1').entries])

    def test_nova_refuses_to_reboot_it_before_it_is_confirmed(self) -> None:
        self.resize(self.server, self.large)

        for kind in ('SOFT', 'HARD'):
            err = self.assertRaises(
                api_client.OpenStackApiException,
                self.act,
                self.server,
                'reboot',
                type=kind,
            )
            self.assertEqual(409, err.response.status_code)

        self.assert_agreement(
            host1={self.find_migration(self.server).uuid: State.PARKED},
            host2={self.uuid: State.APPLIED},
        )

    def test_a_lost_ledger_is_no_obstacle_to_a_revert(self) -> None:
        self.resize(self.server, self.large)
        host = self.get_host('host1')
        host.release(self.find_migration(self.server).uuid)

        self.revert(self.server)

        self.assert_only_on('host1')
