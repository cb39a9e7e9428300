# SPDX-License-Identifier: Apache-2.0

"""What systemd hears of an agent."""

import datetime
import os
import socket
from typing import cast

import fixtures

from nova_ext_resources.cmd import agent
from nova_ext_resources.host import agent as host_agent
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import health
from tests import base

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class Host:
    """Has the alarms that it is made with."""

    def __init__(self, *names: str) -> None:
        self._names = names

    def read_health(self) -> health.HostHealth:
        return health.HostHealth(
            host='cpu1',
            at=NOW,
            status=health.HealthStatus.FAILING,
            parts=(),
            alarms=tuple(
                alarm.Alarm(name=name, subject='', text='', since=NOW)
                for name in self._names
            ),
        )


class ReportTest(base.TestCase):
    def hear(self, *alarms: str) -> bytes:
        path = os.path.join(self.make_folder(), 'notify')
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
            server.bind(path)
            with fixtures.EnvironmentVariable('NOTIFY_SOCKET', path):
                agent._report(cast(host_agent.Agent, Host(*alarms)))
            return server.recv(100)

    def test_a_host_that_is_not_well_is_alive(self) -> None:
        self.assertEqual(
            b'STATUS=host cpu1: failing\nWATCHDOG=1',
            self.hear(alarm.NOT_IN_FORCE),
        )

    def test_one_that_is_not_read_is_not(self) -> None:
        """So that systemd starts it again."""
        self.assertEqual(
            b'STATUS=host cpu1: failing',
            self.hear(alarm.NOT_IN_FORCE, alarm.STALLED),
        )
