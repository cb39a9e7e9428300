# SPDX-License-Identifier: Apache-2.0

from nova_ext_resources.reservation import publication
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import publications
from tests.unit.reservation.store import stores

NOW = 1_900_000_000


def make(host: str, document: str = '{}') -> publication.Publication:
    return publication.Publication(
        host=host, document=document, holders='h', cells='c'
    )


class PublicationsTest(stores.StoreTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.database = databases.Database(self.url)

    def note(self, *hosts: str, now: int = NOW) -> None:
        self.assertTrue(publications.begin_round(self.database, now, 50))
        publications.write(self.database, [make(one) for one in hosts])
        publications.end_round(self.database, hosts, now)

    def test_what_was_noted_is_read(self) -> None:
        names = [f'host{number}' for number in range(250)]
        self.note(*names)

        found = publications.read(self.database, NOW)

        self.assertEqual({one: make(one) for one in names}, found)
        self.assertEqual(
            {one: make(one).digest for one in names},
            publications.read_digests(self.database),
        )

    def test_it_is_written_in_place_of_what_was_there(self) -> None:
        self.note('a', 'b')

        publications.write(self.database, [make('b', 'other')])

        found = publications.read(self.database, NOW)
        self.assertEqual({'a': make('a'), 'b': make('b', 'other')}, found)

    def test_hosts_that_are_gone(self) -> None:
        self.note('a', 'b')

        publications.end_round(self.database, ['b', 'c'], NOW)

        self.assertEqual(['b'], [*publications.read(self.database, NOW)])

    def test_what_is_too_old_is_not_believed(self) -> None:
        self.note('a')
        age = publications.MAX_AGE_SECONDS

        self.assertEqual(['a'], [*publications.read(self.database, NOW + age)])
        self.assertEqual({}, publications.read(self.database, NOW + age + 1))

    def test_one_of_several_gets_a_round(self) -> None:
        def begin(now: int) -> bool:
            return publications.begin_round(self.database, now, 50)

        self.assertEqual(
            [True, False, False, True, False],
            [begin(NOW + one) for one in (0, 0, 49, 50, 50)],
        )

    def test_a_clock_that_was_ahead(self) -> None:
        self.note('a', now=NOW + 10_000)

        self.assertTrue(publications.begin_round(self.database, NOW, 50))

    def test_nothing_was_noted(self) -> None:
        self.assertEqual({}, publications.read(self.database, NOW))
