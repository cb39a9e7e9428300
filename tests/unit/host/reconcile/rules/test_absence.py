# SPDX-License-Identifier: Apache-2.0

import dataclasses
import datetime

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.host.reconcile.rules import absence
from nova_ext_resources.objects import assignment
from tests import base

GAP = 1200.0


def make_entry(
    consumer_uuid: str = uuidsentinel.server,
) -> assignment.Entry:
    return assignment.Entry(consumer_uuid=consumer_uuid, assignments=())


def make_asked(began: float, ended: float | None = None) -> absence.Asked:
    return absence.Asked(
        began=began,
        ended=began if ended is None else ended,
        answered_at=datetime.datetime.fromtimestamp(began, datetime.UTC),
    )


class FollowTest(base.TestCase):
    def follow(
        self, *answers: tuple[absence.Asked, list[assignment.Entry]]
    ) -> dict[str, absence.AbsentServer]:
        found: dict[str, absence.AbsentServer] = {}
        for asked, entries in answers:
            found = absence.follow(found, entries, asked, GAP)
        return found

    def list_ages(
        self, *answers: tuple[absence.Asked, list[assignment.Entry]]
    ) -> dict[str, float]:
        found = self.follow(*answers)
        return {uuid: one.age for uuid, one in found.items()}

    def test_an_answer_proves_nothing_of_the_time_before_it(self) -> None:
        one = make_entry()

        ages = self.list_ages((make_asked(100, 130), [one]))

        self.assertEqual({one.consumer_uuid: 0}, ages)

    def test_the_age_is_what_the_answers_prove(self) -> None:
        """From the end of the first to the beginning of the last."""
        one = make_entry()

        ages = self.list_ages(
            (make_asked(100, 130), [one]),
            (make_asked(700, 710), [one]),
            (make_asked(1300, 1390), [one]),
        )

        self.assertEqual({one.consumer_uuid: 1170}, ages)

    def test_one_answer_that_has_it_begins_anew(self) -> None:
        one = make_entry()

        ages = self.list_ages(
            (make_asked(0), [one]),
            (make_asked(600), []),
            (make_asked(1200), [one]),
            (make_asked(1800), [one]),
        )

        self.assertEqual({one.consumer_uuid: 600}, ages)

    def test_an_entry_that_has_changed_begins_anew(self) -> None:
        one = make_entry()
        changed = dataclasses.replace(one, state=assignment.State.APPLIED)

        ages = self.list_ages(
            (make_asked(0), [one]),
            (make_asked(600), [changed]),
            (make_asked(1200), [changed]),
        )

        self.assertEqual({one.consumer_uuid: 600}, ages)

    def test_each_consumer_of_a_server_has_its_own_age(self) -> None:
        one = make_entry()
        kept = dataclasses.replace(
            make_entry(uuidsentinel.migration), server_uuid=one.server_uuid
        )

        ages = self.list_ages(
            (make_asked(0), [one]),
            (make_asked(600), [one, kept]),
            (make_asked(1200), [one, kept]),
        )

        self.assertEqual(
            {one.consumer_uuid: 1200, kept.consumer_uuid: 600}, ages
        )

    def test_nothing_is_proven_between_answers_that_are_far_apart(
        self,
    ) -> None:
        one = make_entry()
        for gap, expected in ((GAP, GAP + 20), (GAP + 1, 0)):
            ages = self.list_ages(
                (make_asked(0), [one]),
                (make_asked(10, 20), [one]),
                (make_asked(20 + gap, 30 + gap), [one]),
            )
            with self.subTest(gap=gap):
                self.assertEqual({one.consumer_uuid: expected}, ages)


class ListOrphansTest(base.TestCase):
    def make_missing(self, uuid: str, age: float) -> absence.AbsentServer:
        return absence.AbsentServer(
            entry=make_entry(uuid),
            first=make_asked(10000 - age),
            last=make_asked(10000),
        )

    def test_those_that_are_older_than_that_the_oldest_first(self) -> None:
        given = [
            self.make_missing(uuidsentinel.young, 7199),
            self.make_missing(uuidsentinel.just, 7200),
            self.make_missing(uuidsentinel.old, 7201),
            self.make_missing(uuidsentinel.oldest, 9000),
        ]

        found = absence.list_orphans(
            {one.entry.consumer_uuid: one for one in given}, 7200
        )

        self.assertEqual(
            [uuidsentinel.oldest, uuidsentinel.old],
            [one.entry.consumer_uuid for one in found],
        )


class LimitsTest(base.TestCase):
    def test_more_than_three_and_more_than_half_are_suspicious(self) -> None:
        for count, total, expected in (
            (0, 0, False),
            (3, 3, False),
            (4, 4, True),
            (4, 7, True),
            (4, 8, False),
            (5, 9, True),
            (50, 100, False),
            (51, 100, True),
        ):
            with self.subTest(missing=count, total=total):
                self.assertIs(expected, absence.is_suspicious(count, total))

    def test_the_least_age_is_two_comparisons_and_a_call(self) -> None:
        for pause, timeout, expected in (
            (600, 1800, 1800),
            (600, 900, 1200),
            (3600, 1800, 7200),
        ):
            with self.subTest(pause=pause, timeout=timeout):
                self.assertEqual(
                    expected, absence.find_least_age(pause, timeout)
                )
