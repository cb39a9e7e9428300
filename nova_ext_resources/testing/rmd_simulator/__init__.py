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

"""A simulator of RMD v0.3.1, with a simulated host below it.

It answers as the daemon does where a client can see it, mistakes
included. It keeps no pretence of hardware: control groups are values that
can be looked at, and that other software can be made to take.

``python -m nova_ext_resources.testing.rmd_simulator`` starts one;
:class:`RmdSimulatorFixture` starts one inside a test.
"""

from nova_ext_resources.testing.rmd_simulator import fixture
from nova_ext_resources.testing.rmd_simulator import settings
from nova_ext_resources.testing.rmd_simulator import simulator

RmdSimulatorFixture = fixture.RmdSimulatorFixture
Settings = settings.Settings
Simulator = simulator.Simulator

__all__ = ('RmdSimulatorFixture', 'Settings', 'Simulator')
