# SPDX-License-Identifier: Apache-2.0

"""Tests of what is remembered of other requests."""

import dataclasses
import datetime
import json
from typing import Any

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources.claims.schedule import pending
from nova_ext_resources.objects.documents import stats
from tests import base
from tests.unit import builders
from tests.unit.claims.schedule import test_candidates
from tests.unit import strategies

START = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


def publish(
    free: int = 8,
    used: int = 0,
    *,
    clos: int = 6,
    second: int = 0,
    allocated: int | None = None,
) -> pending.PublishedDocument:
    """Make what a host with one cache publishes.

    :param free: ways; the lowest ones are used
    :param allocated: ways, in placement; None where Nova does not show them
    """
    view = builders.make_view([0], clos=clos)
    ways = builders.make_ways(((1 << free) - 1) << used, (1 << used) - 1)
    tracked = {**view.tracked, (builders.L3_0, builders.WAYS): ways}
    return pending.PublishedDocument(
        text=stats.encode(dataclasses.replace(view, tracked=tracked)),
        updated=START + datetime.timedelta(seconds=second),
        summaries=None if allocated is None else summarize(allocated),
    )


def summarize(used: int) -> dict[str, Any]:
    """Make those of placement of a host with one cache."""
    ways = {'capacity': 11, 'used': used}
    return {builders.L3_0: {'resources': {builders.WAYS: ways}}}


class PendingTest(base.TestCase):
    """Each server asks for four ways, and a class of service with them."""

    def setUp(self) -> None:
        super().setUp()
        self.pending = pending.Pending()
        self.judge = test_candidates.make_judge()
        self.now = 100.0

    def give(
        self,
        published: pending.PublishedDocument,
        host: str = 'host1',
        **of: Any,
    ) -> bool:
        published = dataclasses.replace(published, read_at=self.now)
        self.note = self.pending.give(
            host,
            published,
            self.judge,
            test_candidates.ON_0,
            self.now,
            **of,
        )
        return self.note is not None

    def test_there_is_room_for_both(self) -> None:
        self.assertTrue(self.give(publish()))
        self.assertTrue(self.give(publish()))

    def test_ways_are_for_two_servers(self) -> None:
        given = [self.give(publish()) for _number in range(3)]
        self.assertEqual([True, True, False], given)

    def test_the_class_of_service_is_for_one_server(self) -> None:
        given = [self.give(publish(clos=1)) for _number in range(2)]
        self.assertEqual([True, False], given)

    def test_another_host_has_its_own(self) -> None:
        self.give(publish(clos=1))
        self.assertTrue(self.give(publish(clos=1), 'host2'))

    def test_the_first_is_given_whatever_the_host_shows(self) -> None:
        """Candidates were chosen of the same; this guesses only."""
        self.assertTrue(self.give(publish(0)))

    def test_a_claim_that_failed_takes_nothing(self) -> None:
        self.give(publish(8))
        first = self.note
        self.give(publish(8))
        assert first is not None

        self.pending.take_back('host1', first)

        given = [self.give(publish(8)) for _number in range(2)]
        self.assertEqual([True, False], given)

    def test_one_that_gets_it_in_any_case_counts(self) -> None:
        self.give(publish(8), is_sure=True)
        self.give(publish(8), is_sure=True)
        self.assertFalse(self.give(publish(8)))

    def test_what_placement_showed_long_ago_is_not_believed(self) -> None:
        self.give(publish(8))
        self.give(publish(8))
        old = dataclasses.replace(publish(8, allocated=0), read_at=self.now)
        self.now += pending.SHOWN_SECONDS + 1

        found = self.pending.give(
            'host1', old, self.judge, test_candidates.ON_0, self.now
        )

        self.assertIsNone(found)

    def test_one_that_was_not_built_is_forgotten_in_time(self) -> None:
        self.give(publish(clos=1))
        self.now += pending.MAX_SECONDS
        self.assertFalse(self.give(publish(clos=1)))
        self.now += 1
        self.assertTrue(self.give(publish(clos=1)))

    def test_nothing_is_kept_of_hosts_for_long(self) -> None:
        self.give(publish())
        self.now += pending.MAX_SECONDS + 1
        self.give(publish(), 'host2')
        self.assertEqual(['host2'], list(self.pending._hosts))

    def test_a_host_of_which_nothing_is_known(self) -> None:
        for text in (None, '', '{', '{"v":1}'):
            published = pending.PublishedDocument(text=text, updated=None)
            self.assertTrue(self.give(published))

    def test_what_the_host_shows_is_not_counted_twice(self) -> None:
        self.give(publish(8))

        self.assertTrue(self.give(publish(4, 4, second=1)))
        self.assertFalse(self.give(publish(4, 4, second=1)))

    def test_what_the_host_does_not_show_yet_counts(self) -> None:
        self.give(publish(8))
        self.give(publish(8))

        self.assertFalse(self.give(publish(4, 4, second=1)))

    def test_what_was_read_before_another_is_not_believed(self) -> None:
        self.give(publish(8))
        self.give(publish(4, 4, second=2))

        self.assertFalse(self.give(publish(8)))

    def test_what_other_servers_had_is_room(self) -> None:
        self.give(publish(0, 8))
        self.now += pending.MAX_SECONDS + 1

        given = [self.give(publish(8, second=1)) for _number in range(3)]

        self.assertEqual([True, True, False], given)

    def test_a_server_that_is_gone_by_now_takes_nothing(self) -> None:
        """The host shows the same again."""
        self.give(publish(8))
        self.give(publish(8))
        self.now += pending.SHOWN_SECONDS + 1

        given = [self.give(publish(8, allocated=used)) for used in (4, 8)]

        self.assertEqual([True, False], given)

    def test_placement_may_not_show_yet_what_was_just_given(self) -> None:
        self.give(publish(8))
        self.give(publish(8))
        self.now += pending.SHOWN_SECONDS

        self.assertFalse(self.give(publish(8, allocated=0)))

    def test_what_placement_shows_and_the_host_does_not_counts(self) -> None:
        self.give(publish(8))
        self.give(publish(8))
        self.now += pending.SHOWN_SECONDS + 1

        self.assertFalse(self.give(publish(8, allocated=8)))

    @hypothesis.given(st.data())
    def test_damaged_documents_are_no_reason_to_fail(
        self, drawn: st.DataObject
    ) -> None:
        good = publish(clos=2)
        assert good.text is not None
        data = drawn.draw(strategies.damaged(json.loads(good.text)))
        text = json.dumps(data, separators=(',', ':'))
        damaged = dataclasses.replace(good, text=text)

        for one in (good, damaged, good, damaged):
            self.give(one)

    def test_numbers_that_are_none_are_not_counted(self) -> None:
        good = publish()
        assert good.text is not None
        for odd in ('Infinity', '1e400', 'true', '"1"', '-1'):
            text = good.text.replace('[8,0]', f'[8,{odd}]')

            self.assertNotEqual(good.text, text)
            self.assertTrue(self.give(good, odd))
            self.assertTrue(
                self.give(dataclasses.replace(good, text=text), odd)
            )
