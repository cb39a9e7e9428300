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

import os

from nova_ext_resources.resctrl import files
from nova_ext_resources.resctrl import privsep
from tests import base


class PrivsepTest(base.TestCase):
    def test_the_helper_keeps_no_capability(self) -> None:
        self.assertEqual([], privsep.context.conf.capabilities)

    def test_the_helper_can_be_started_by_its_name(self) -> None:
        command = privsep.context.helper_command('/run/socket')

        self.assertIn('nova_ext_resources.resctrl.privsep.context', command)

    def test_the_helper_refuses_what_is_not_resctrl(self) -> None:
        folder = self.make_folder()
        privsep.context.set_client_mode(False)
        self.addCleanup(privsep.context.set_client_mode, True)

        for call, arguments in (
            (privsep.write, (f'{folder}/schemata', 'L3:0=1\n')),
            (privsep.assign, (f'{folder}/tasks', [1])),
            (privsep.mkdir, (f'{folder}/db',)),
            (privsep.rmdir, (folder,)),
        ):
            self.assertRaises(PermissionError, call, *arguments)
        self.assertEqual([], os.listdir(folder))

    def test_who_may_write_himself_needs_no_helper(self) -> None:
        folder = self.make_folder()
        real = files.RealFileSystem(folder)

        real.mkdir('db')

        self.assertEqual(['db'], real.listdir(''))
        self.assertIsNone(privsep.context.channel)
