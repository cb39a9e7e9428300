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
