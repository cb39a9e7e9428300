# SPDX-License-Identifier: Apache-2.0

"""A simulated RMD for the time of a test."""

from typing import Any

import fixtures

from nova_ext_resources.testing.rmd_simulator import settings as settings_mod
from nova_ext_resources.testing.rmd_simulator import simulator


class RmdSimulatorFixture(fixtures.Fixture):
    """Starts a simulator on a free port, and stops it.

    ``settings`` are fields of :class:`.settings.Settings`; ``tls``,
    ``users`` and ``database`` go to :class:`.simulator.Simulator`.

    :ivar url: where it listens
    :ivar simulator: to look behind the scenes and to interfere
    """

    def __init__(
        self,
        *,
        tls: Any = None,
        users: Any = None,
        database: str | None = None,
        **settings: Any,
    ) -> None:
        super().__init__()
        self._settings = settings_mod.Settings(**settings)
        self._access = {'tls': tls, 'users': users, 'database': database}

    def _setUp(self) -> None:
        self.simulator = simulator.Simulator(self._settings, **self._access)
        self.url = self.simulator.url
        self.addCleanup(self.simulator.stop)
        self.simulator.start()
