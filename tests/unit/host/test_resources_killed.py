# SPDX-License-Identifier: Apache-2.0

from nova_ext_resources.host import resources as host_mod
from tests.unit.host import killing
from tests.unit.host import with_host


class KilledHostTest(killing.KilledCases, with_host.RmdHostTestCase):
    def list_arguments(self) -> list[str]:
        return ['rmd', f'url={self.fixture.url}']

    def restart(self) -> host_mod.HostResources:
        return self.make_rmd_host()

    def lose_everything(self) -> None:
        self.simulator.restart(keep_database=False)

    def wait_for_the_dead(self) -> None:
        # Its last request may still be answered.
        with self.simulator.daemon.locked():
            pass
