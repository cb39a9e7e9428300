# SPDX-License-Identifier: Apache-2.0

"""Tests of what a request remembers of its own servers."""

import gc
from typing import Any

from nova_ext_resources.claims.schedule import candidates
from nova_ext_resources.claims.schedule import consumption
from nova_ext_resources.objects.documents import stats
from tests import base
from tests.unit import builders
from tests.unit.claims.schedule import test_candidates

TEXT = stats.encode(builders.make_view([0x00F, 0x00F]))


class HostState:
    """As much of Nova's as is looked at."""

    def __init__(self) -> None:
        self.num_instances = 0
        self.allocation_candidates: list[candidates.Candidate] = [
            test_candidates.ON_0,
            test_candidates.ON_1,
        ]


class ConsumptionTestCase(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.consumption = consumption.Consumption()
        self.judge = test_candidates.make_judge()
        self.host = HostState()

    def pass_once(self, text: str | None = TEXT) -> None:
        document, _is_used = self.consumption.read(self.host, text, self.judge)
        self.consumption.remember(self.host, text, document)

    def list_kept(self, text: str | None = TEXT) -> list[Any]:
        document, _is_used = self.consumption.read(self.host, text, self.judge)
        assert document is not None
        return test_candidates.choose(document)

    def test_the_first_candidate_is_taken_when_nova_consumed(self) -> None:
        self.pass_once()

        self.host.num_instances += 1

        self.assertEqual([test_candidates.ON_1], self.list_kept())

    def test_nothing_is_taken_from_a_host_that_was_not_chosen(self) -> None:
        self.pass_once()

        self.assertEqual(2, len(self.list_kept()))

    def test_what_was_taken_stays_taken(self) -> None:
        self.pass_once()
        self.host.num_instances += 1
        self.pass_once()

        self.assertEqual([test_candidates.ON_1], self.list_kept())

    def test_a_shorter_list_of_other_filters_is_believed(self) -> None:
        self.pass_once()

        self.host.num_instances += 1
        self.host.allocation_candidates = [test_candidates.ON_1]

        self.assertEqual([test_candidates.ON_0], self.list_kept())

    def test_a_new_document_makes_the_memory_obsolete(self) -> None:
        self.pass_once()

        self.host.num_instances += 1

        new = stats.encode(builders.make_view())
        self.assertEqual(2, len(self.list_kept(new)))

    def test_a_host_that_publishes_nothing_is_still_seen_used(self) -> None:
        self.pass_once(None)

        self.host.num_instances += 1

        self.assertEqual(
            (None, True), self.consumption.read(self.host, None, self.judge)
        )

    def test_nothing_is_left_when_the_request_is_over(self) -> None:
        self.pass_once()

        del self.host
        gc.collect()

        self.assertEqual(0, len(self.consumption._seen))
