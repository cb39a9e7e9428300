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

from nova_ext_resources import host as host_mod
from tests.unit import killing
from tests.unit import with_host


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
