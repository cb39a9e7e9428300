# SPDX-License-Identifier: Apache-2.0

"""What systemd hears of an agent."""

import datetime
import os
import socket

import fixtures

from nova_ext_resources.cmd import agent
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import host_health
from tests import base

NOW = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def make_health(*names: str) -> host_health.HostHealth:
    """Make the health of a host with alarms of these names."""
    return host_health.HostHealth(
        host='cpu1',
        at=NOW,
        status=host_health.HealthStatus.FAILING,
        parts=(),
        alarms=tuple(
            alarm.Alarm(name=name, subject='', text='', since=NOW)
            for name in names
        ),
    )


class ReportTest(base.TestCase):
    def hear(self, *alarms: str) -> bytes:
        path = os.path.join(self.make_folder(), 'notify')
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as server:
            server.bind(path)
            with fixtures.EnvironmentVariable('NOTIFY_SOCKET', path):
                agent._report(make_health(*alarms))
            return server.recv(100)

    def test_a_host_that_is_not_well_is_alive(self) -> None:
        self.assertEqual(
            b'STATUS=host cpu1: failing\nWATCHDOG=1',
            self.hear(alarm.NOT_APPLIED),
        )

    def test_one_that_is_not_read_is_not(self) -> None:
        """So that systemd starts it again."""
        self.assertEqual(
            b'STATUS=host cpu1: failing',
            self.hear(alarm.NOT_APPLIED, alarm.STALLED),
        )
