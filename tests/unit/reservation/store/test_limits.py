# SPDX-License-Identifier: Apache-2.0

"""Tests of the limits of single projects."""

from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import limits
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import limits as store_mod
from tests.unit.reservation.store import stores

OTHERS = limits.Limits(ahead=100, duration=200, servers=3, reservations=4)


class LimitsTest(stores.StoreTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.limits = store_mod.Limits(databases.Database(self.url), OTHERS)

    def test_without_any_those_of_all_hold(self) -> None:
        self.assertEqual(OTHERS, self.limits.find('red'))

    def test_what_has_no_project_is_not_bounded(self) -> None:
        self.assertEqual(limits.Limits(), self.limits.find(''))

    def test_what_is_not_set_is_as_for_all(self) -> None:
        self.limits.set_limits('red', ahead=7)
        self.limits.set_limits('blue', duration=interval.FOREVER)

        for project, ahead, duration in (
            ('red', 7, 200),
            ('blue', 100, interval.FOREVER),
            ('green', 100, 200),
        ):
            wanted = limits.Limits(
                ahead=ahead, duration=duration, servers=3, reservations=4
            )
            self.assertEqual(wanted, self.limits.find(project))

    def test_what_is_set_takes_the_place_of_all(self) -> None:
        self.limits.set_limits('red', ahead=7)

        self.limits.set_limits('red', duration=8)

        self.assertEqual(
            [store_mod.OwnLimits(project='red', duration=8)],
            self.limits.list_limits(),
        )

    def test_they_are_listed_by_project(self) -> None:
        for project in ('red', 'blue'):
            self.limits.set_limits(project, ahead=1)

        names = [one.project for one in self.limits.list_limits()]
        self.assertEqual(['blue', 'red'], names)
        (found,) = self.limits.list_limits('red')
        self.assertEqual('red', found.project)

    def test_one_that_is_deleted(self) -> None:
        self.limits.set_limits('red', ahead=7)

        self.limits.delete_limits('red')

        self.assertEqual(OTHERS, self.limits.find('red'))
        err = self.assertRaises(
            errors.LimitsNotFound, self.limits.delete_limits, 'red'
        )
        self.assertIn('Project red has no limits', str(err))

    def test_what_makes_no_sense(self) -> None:
        before = stores.dump(self.url)
        for project, fields in (
            ('', {}),
            (' red', {}),
            (256 * 'x', {}),
            ('red', {'ahead': -1}),
            ('red', {'duration': 0}),
        ):
            with self.subTest(project=project, **fields):
                self.assertRaises(
                    errors.InvalidLimits,
                    self.limits.set_limits,
                    project,
                    **fields,
                )
        self.assertEqual(before, stores.dump(self.url))
