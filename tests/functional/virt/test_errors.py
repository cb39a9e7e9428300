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

"""Which of Nova's errors stands for which of ours."""

from typing import Any

from nova.compute import task_states
from nova import exception as nova_exc
from nova.objects import instance as instance_obj

from nova_ext_resources import exception
from nova_ext_resources.virt import errors
from tests import base

SERVER = '11111111-1111-4111-8111-111111111111'


def make_placement_error(cls: type[exception.PlacementError]) -> Exception:
    return cls(action='move allocations', status=409, detail='taken')


class TranslatedTest(base.TestCase):
    def translate(self, err: Exception) -> Exception:
        def fail() -> None:
            with errors.translated(SERVER):
                raise err

        translated: Exception = self.assertRaises(nova_exc.NovaException, fail)
        return translated

    def test_a_host_that_is_busy_has_not_failed(self) -> None:
        for err in (
            exception.CapacityExceeded(
                host='host1', consumer_uuid=SERVER, shortfalls=()
            ),
            make_placement_error(exception.AllocationRejected),
        ):
            with self.subTest(type(err).__name__):
                translated = self.translate(err)

                self.assertIsInstance(translated, errors.HostRefused)
                self.assertIn(str(err), str(translated))

    def test_one_that_cannot_write_or_ask_has(self) -> None:
        for err in (
            exception.LedgerError(path='x', reason='the disk is full'),
            make_placement_error(exception.PlacementUnavailable),
        ):
            with self.subTest(type(err).__name__):
                translated = self.translate(err)

                self.assertIsInstance(
                    translated, nova_exc.ComputeResourcesUnavailable
                )
                self.assertIn(str(err), str(translated))

    def test_a_sentence_ends_once(self) -> None:
        err = exception.LedgerError(path='x', reason='it is full. Mend it.')

        translated = self.translate(err)

        self.assertTrue(str(translated).endswith('full. Mend it.'))

    def test_what_is_not_ours_is_left_as_it_is(self) -> None:
        err = nova_exc.InstanceNotFound(instance_id=SERVER)

        self.assertIs(err, self.translate(err))


class RebuildTest(base.TestCase):
    def make_instance(self, **fields: Any) -> Any:
        given = {
            'uuid': SERVER,
            'host': 'host1',
            'task_state': task_states.REBUILD_SPAWNING,
        }
        return instance_obj.Instance(**{**given, **fields})

    def test_one_in_place_that_fails_is_shown(self) -> None:
        def rebuild() -> None:
            with errors.rebuild_shown(self.make_instance(), 'host1'):
                raise nova_exc.ComputeResourcesUnavailable(reason='no ways')

        err = self.assertRaises(nova_exc.BuildAbortException, rebuild)

        self.assertIn('no ways', str(err))

    def test_other_builds_that_fail_are_as_they_were(self) -> None:
        for fields in ({'host': 'host2'}, {'task_state': 'spawning'}):

            def build(given: dict[str, str] = fields) -> None:
                with errors.rebuild_shown(
                    self.make_instance(**given), 'host1'
                ):
                    raise nova_exc.ComputeResourcesUnavailable(reason='full')

            with self.subTest(**fields):
                self.assertRaises(nova_exc.ComputeResourcesUnavailable, build)
