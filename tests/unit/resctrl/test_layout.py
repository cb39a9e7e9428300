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

"""Layouts that cannot be had from a kernel in a test of the host."""

from nova_ext_resources.resctrl import groups
from nova_ext_resources.resctrl import info
from nova_ext_resources.resctrl import layout
from nova_ext_resources.resctrl import schemata
from tests import base

CACHE = schemata.Cache(3, 0)


class LevelsTest(base.TestCase):
    def test_a_level_without_info_is_not_laid_out(self) -> None:
        tree = groups.Tree(
            info=info.Info(
                caches={'L3': info.CacheInfo(num_closids=4, full=15)}
            ),
            default=groups.Group(
                name='', schemata={'L3': {0: 15}, 'L2': {0: 15}}
            ),
        )

        plan = layout.plan(tree, layout.Host(cpus={}), sold={})

        self.assertEqual({'': {'L3': {0: 15}}}, plan)
