# SPDX-License-Identifier: Apache-2.0

"""Which of Nova's errors stands for which of ours."""

from nova import exception as nova_exc

from nova_ext_resources import exception
from nova_ext_resources.objects import operation
from nova_ext_resources.virt import errors
from tests import base

Operation = operation.Operation

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
    def rebuild(self, reason: operation.Operation) -> None:
        with errors.rebuild_shown(reason, SERVER):
            raise nova_exc.ComputeResourcesUnavailable(reason='no ways')

    def test_one_in_place_that_fails_is_shown(self) -> None:
        err = self.assertRaises(
            nova_exc.BuildAbortException, self.rebuild, Operation.REBUILD
        )

        self.assertIn('no ways', str(err))

    def test_other_builds_that_fail_are_as_they_were(self) -> None:
        for reason in set(Operation) - {Operation.REBUILD}:
            with self.subTest(reason=reason):
                self.assertRaises(
                    nova_exc.ComputeResourcesUnavailable, self.rebuild, reason
                )
