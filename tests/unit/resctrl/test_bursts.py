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

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources.objects import bitmask
from nova_ext_resources.resctrl import bursts
from nova_ext_resources.resctrl import schemata
from tests import base
from tests.unit import strategies  # noqa: F401 - sets the profile

CACHES = (schemata.Cache(3, 0), schemata.Cache(3, 1))

_sizes = st.lists(
    st.integers(min_value=1, max_value=5), min_size=1, max_size=6
)


@st.composite
def _layouts(draw: st.DrawFn) -> dict[str, int]:
    """Runs side by side, with gaps; order as the names."""
    start, runs = 0, {}
    for number, size in enumerate(draw(_sizes)):
        start += draw(st.integers(min_value=0, max_value=2))
        runs[f's{number}'] = bitmask.make_run(start, size)
        start += size
    return runs


def _overlaps(now: dict[str, dict[schemata.Cache, int]]) -> bool:
    for cache in CACHES:
        together = 0
        for runs in now.values():
            if together & runs.get(cache, 0):
                return True
            together |= runs.get(cache, 0)
    return False


class StepsTest(base.TestCase):
    @hypothesis.given(data=st.data())
    def test_runs_never_overlap_on_their_way(
        self, data: st.DataObject
    ) -> None:
        before: dict[str, dict[schemata.Cache, int]] = {}
        after: dict[str, dict[schemata.Cache, int]] = {}
        for cache in CACHES:
            old, new = data.draw(_layouts()), data.draw(_layouts())
            for uuid in old.keys() & new.keys():
                before.setdefault(uuid, {})[cache] = old[uuid]
                after.setdefault(uuid, {})[cache] = new[uuid]
        now = {uuid: dict(runs) for uuid, runs in before.items()}

        for uuid, step in bursts.list_steps(before, after):
            now[uuid].update(step)

            self.assertFalse(_overlaps(now))
        self.assertEqual(after, now)

    def test_runs_that_are_in_a_muddle_come_right_all_the_same(self) -> None:
        (cache, _) = CACHES
        before = {'a': {cache: 0b0011}, 'b': {cache: 0b1100}}
        after = {'a': {cache: 0b1100}, 'b': {cache: 0b0011}}

        steps = list(bursts.list_steps(before, after))

        self.assertEqual(2, len(steps))


class LayOutTest(base.TestCase):
    def test_runs_lie_side_by_side(self) -> None:
        self.assertEqual(
            [0b0000110, 0b0001000, 0b1110000],
            bursts.lay_out(0b1111110, [2, 1, 3]),
        )

    def test_who_has_a_run_comes_before_who_has_none(self) -> None:
        self.assertEqual(
            ['c', 'a', 'b', 'd'],
            bursts.sort({'a': 0b110, 'b': 0, 'c': 0b1, 'd': 0}),
        )

    def test_the_room_is_the_longest_run(self) -> None:
        self.assertEqual(0b0111000, bursts.find_room(0b0111011))
        self.assertEqual(0b0000011, bursts.find_room(0b1100011))
        self.assertEqual(0, bursts.find_room(0))
