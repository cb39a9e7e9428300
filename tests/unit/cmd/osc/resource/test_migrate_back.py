# SPDX-License-Identifier: Apache-2.0

"""Tests of when a host may be moved back."""

from collections.abc import Iterator
import datetime
from typing import Any

from osc_lib import exceptions
from oslo_utils import timeutils

from nova_ext_resources.cmd.osc import nova
from nova_ext_resources.cmd.osc.resource import migrate
from nova_ext_resources.inspection.audit import cloud
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import placement_client
from tests import base


class Nova(nova.Nova):
    """Has one host."""

    def __init__(self, **service: Any) -> None:
        self._service = service

    def list_nodes(self) -> Iterator[cloud.Hypervisor]:
        yield cloud.Hypervisor(
            name='node1', uuid='', host='host1', is_up=False
        )

    def read_compute_services(self) -> dict[str, dict[str, Any]]:
        return {'host1': self._service} if self._service else {}


class Placement(placement_client.Client):
    """Is empty, which is noticed where the service allows it."""

    def __init__(self) -> None:
        pass

    def list_providers(
        self, **_query: Any
    ) -> tuple[host_provider.Provider, ...]:
        return ()


class DownTest(base.TestCase):
    def revert(self, **service: Any) -> str:
        """Return why it was refused."""
        error = self.assertRaises(
            exceptions.CommandError,
            migrate.revert,
            Placement(),
            Nova(**service),
            'node1',
            ['CUSTOM_A'],
        )
        return str(error)

    def force(self, seconds: float | None) -> str:
        """Have it forced down that long after its last report."""
        text = None
        if seconds is not None:
            at = timeutils.utcnow() - datetime.timedelta(seconds=seconds)
            # As Nova writes it: without a time zone.
            text = at.isoformat()
        return self.revert(state='down', forced_down=True, updated_at=text)

    def test_one_that_is_down(self) -> None:
        at = timeutils.utcnow().isoformat()

        self.assertIn(
            'Placement has no compute node',
            self.revert(state='down', forced_down=False, updated_at=at),
        )

    def test_one_that_is_not(self) -> None:
        for service, words in (
            ({'state': 'up'}, 'nova-compute of host host1 is up'),
            ({'state': None, 'status': 'UNKNOWN'}, 'host1 is unknown'),
            ({}, 'host1 is unknown'),
        ):
            self.assertIn(words, self.revert(**service))

    def test_one_that_is_only_forced_down(self) -> None:
        for seconds in (-3600, 0, 100):
            self.assertIn('remove the mark', self.force(seconds))

    def test_one_that_was_forced_down_long_ago(self) -> None:
        for seconds in (200, 86400, None):
            self.assertIn('Placement has no compute node', self.force(seconds))
