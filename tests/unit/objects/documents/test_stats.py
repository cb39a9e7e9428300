# SPDX-License-Identifier: Apache-2.0

"""Tests of the stats document."""

import dataclasses
import json
from typing import Any

import hypothesis
from hypothesis import strategies as st
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources.claims.trackers import count
from nova_ext_resources.drivers.rmd import constraints as of_rmd
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_view
from tests import base
from tests.unit import builders
from tests.unit import strategies

TRACKERS = builders.make_trackers()

counts = st.builds(
    lambda capacity, used: builders.make_count(capacity, used),
    st.integers(min_value=0, max_value=1000),
    st.integers(min_value=0, max_value=1000),
)
ways = st.builds(
    lambda free, taken, cpus, follows: builders.make_ways(
        free, taken, cpus=cpus, follows_tasks=follows
    ),
    strategies.masks,
    strategies.masks,
    st.sampled_from([None, '', *builders.CPUS]),
    st.booleans(),
)
views = st.builds(
    lambda tracked: host_view.HostView(tracked=tracked),
    st.dictionaries(
        st.tuples(
            st.uuids().map(str),
            st.sampled_from([builders.WAYS, builders.CLOS, builders.SEATS]),
        ),
        st.one_of(counts, ways),
        max_size=8,
    ),
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), FLOATS, st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(
            st.sampled_from(['v', 'p', 't', 's', 'i', 'c', 'w', 'u', 'x']),
            inner,
            max_size=4,
        ),
    ),
    max_leaves=8,
)


def publish(host: host_view.HostView) -> host_view.HostView:
    """Return the host's view as the scheduler gets it."""
    document = stats.decode(stats.encode(host))
    assert document is not None
    return stats.make_view(document, TRACKERS)


def make_document(record: Any) -> stats.Document:
    text = json.dumps({'v': 1, 'p': {builders.RDT: {builders.CLOS: record}}})
    document = stats.decode(text)
    assert document is not None
    return document


class TestRoundTrip(base.TestCase):
    @hypothesis.given(host=views)
    def test_the_scheduler_sees_what_the_host_sees(
        self, host: host_view.HostView
    ) -> None:
        seen = publish(host).tracked

        # Inventories travel through placement.
        self.assertEqual(
            {
                place: dataclasses.replace(tracked, inventory=None)
                for place, tracked in host.tracked.items()
            },
            dict(seen),
        )

    @hypothesis.given(host=views)
    def test_the_same_view_makes_the_same_text(
        self, host: host_view.HostView
    ) -> None:
        backwards = dict(reversed(list(host.tracked.items())))

        self.assertEqual(
            stats.encode(host),
            stats.encode(host_view.HostView(tracked=backwards)),
        )

    def test_the_document_has_the_documented_form(self) -> None:
        host = builders.make_view([0x7FE])

        self.assertEqual(
            {
                'f': {builders.WAYS: [10, 0], builders.CLOS: [6, 0]},
                'v': 1,
                # In the order of the providers; whose uuids differ each time.
                'n': [
                    name
                    for _uuid, name in sorted(
                        [(builders.L3_0, 'L3_0'), (builders.RDT, 'RDT')]
                    )
                ],
                'p': {
                    builders.L3_0: {
                        builders.WAYS: {
                            't': 'cache_ways',
                            's': {'w': '7fe', 't': '0'},
                            'i': [builders.RDT, builders.CLOS],
                            'c': '0-11,24-35',
                        }
                    },
                    builders.RDT: {
                        builders.CLOS: {'t': 'count', 's': {'c': 6, 'u': 0}}
                    },
                },
            },
            json.loads(stats.encode(host)),
        )

    @hypothesis.given(host=views)
    def test_totals_sum_up_what_is_free_and_used(
        self, host: host_view.HostView
    ) -> None:
        sums: dict[str, list[int]] = {}
        for (_rp_uuid, name), tracked in host.tracked.items():
            free, used = sums.get(name, [0, 0])
            sums[name] = [free + tracked.state.free, used + tracked.state.used]

        self.assertEqual(sums, stats.decode_totals(stats.encode(host)))

    def test_totals_of_what_is_no_document_are_absent(self) -> None:
        text = stats.encode(builders.make_view())
        for broken in (
            None,
            '',
            '{"v":1}',
            text[:-1],
            text[1:],
            text.replace('"v":1', '"v":2'),
            '{"f":[],"p":{},"v":1}',
            '{"f":{"A":,"p":{},"v":1}',
            '{"f":' + '[' * 100000 + ',"v":1}',
        ):
            with self.subTest(text=broken and broken[:40]):
                self.assertIsNone(stats.decode_totals(broken))

    def test_a_host_with_32_domains_stays_under_16_kib(self) -> None:
        rdt = getattr(uuidsentinel, 'rdt')  # noqa: B009
        tracked = {
            (
                getattr(uuidsentinel, f'l3_{i}'),
                builders.WAYS,
            ): host_view.Tracked(
                tracker='cache_ways',
                state=cache_ways.CacheWaysState((1 << 20) - 1, 0x55555),
                implied=(rdt, builders.CLOS),
                cpus=f'{8 * i}-{8 * i + 7},{256 + 8 * i}-{263 + 8 * i}',
            )
            for i in range(32)
        }
        tracked[rdt, builders.CLOS] = host_view.Tracked(
            tracker='count', state=count.CountState(16, 16)
        )

        keys = {uuid: f'L3_{n}' for n, (uuid, _class) in enumerate(tracked)}

        text = stats.encode(host_view.HostView(tracked=tracked, keys=keys))

        self.assertLess(len(text.encode()), 16 * 1024)

    def test_what_the_host_can_never_do_is_published(self) -> None:
        host = dataclasses.replace(
            builders.make_view(),
            constraints=host_constraints.Constraints(
                enforcers=frozenset({'rmd'}), classes=of_rmd.CONSTRAINTS
            ),
        )

        self.assertEqual(host.constraints, publish(host).constraints)
        # Readers before this key go by the order of the others.
        text = stats.encode(host)
        self.assertEqual(['f', 'k', 'n', 'p', 'v'], list(json.loads(text)))
        self.assertIsNotNone(stats.decode_totals(text))
        self.assertLess(
            len(text) - len(stats.encode(builders.make_view())), 1024
        )

    def test_the_keys_of_providers_are_published(self) -> None:
        host = builders.make_view()

        self.assertEqual(
            {
                uuid: name
                for uuid, name in host.keys.items()
                if uuid in {place[0] for place in host.tracked}
            },
            publish(host).keys,
        )

    def test_keys_that_are_none_are_left_out(self) -> None:
        data = json.loads(stats.encode(builders.make_view()))
        malformed: tuple[Any, ...] = (None, 5, {}, [], 'x', [None, {}, 3, 4])
        for names in malformed:
            with self.subTest(names=names):
                document = stats.decode(json.dumps({**data, 'n': names}))
                assert document is not None

                keys = stats.make_view(document, TRACKERS).keys

                self.assertEqual({}, keys)

    def test_a_host_that_publishes_no_constraints_has_none(self) -> None:
        for k in (
            None,
            5,
            '',
            '{',
            '[]',
            '{"c":5}',
            '{"c":{"A":7}}',
            '[' * 9999,
        ):
            with self.subTest(k=str(k)[:9]):
                text = json.dumps({'k': k, 'p': {}, 'v': 1})
                document = stats.decode(text)
                assert document is not None

                self.assertEqual(
                    host_constraints.Constraints(),
                    stats.make_view(document, TRACKERS).constraints,
                )

    def make_big(self, count: int) -> host_view.HostView:
        return host_view.HostView(
            tracked={
                (f'{number:036}', f'CUSTOM_LIC_{number}'): host_view.Tracked(
                    tracker='count', state=builders.make_count(20, 1).state
                )
                for number in range(count)
            }
        )

    def test_a_document_that_fills_the_column_has_totals_only(self) -> None:
        text = stats.encode(self.make_big(650))

        self.assertTrue(stats.is_cut(text))
        self.assertIsNone(stats.decode(text))
        totals = stats.decode_totals(text)
        assert totals is not None
        self.assertEqual([19, 1], totals['CUSTOM_LIC_7'])

    def test_keys_are_left_out_before_anything_else(self) -> None:
        whole = self.make_big(450)
        named = dataclasses.replace(
            whole,
            keys={uuid: 'x' * 60 for uuid, _class in whole.tracked},
        )

        self.assertFalse(stats.is_cut(stats.encode(whole)))
        self.assertEqual(whole, publish(named))

    def test_even_totals_may_be_too_many(self) -> None:
        text = stats.encode(self.make_big(3000))

        self.assertEqual({}, stats.decode_totals(text))

    def test_whatever_a_host_has_the_column_of_nova_takes_it(self) -> None:
        for size in (1, 300, 450, 500, 650, 1500, 2500, 3000):
            text = stats.encode(self.make_big(size))
            with self.subTest(size=size):
                # As nova.objects.compute_node writes it.
                written = json.dumps({stats.KEY: text})
                self.assertLess(len(written), 61 * 1024)
                self.assertEqual(size > 450, stats.is_cut(text))


class TestDecode(base.TestCase):
    def test_no_document_is_none(self) -> None:
        for text in (None, ''):
            self.assertIsNone(stats.decode(text))

    def test_what_is_no_document_is_none(self) -> None:
        for text in (
            *('{', 'x', '[]', '"v"', '1', 'null', '{"v":1}'),
            *('{"v":1,"p":{"a":Infinity}}', '{"v":1,"p":{"a":1e400}}'),
            *('{"v":1,"p":{"\\ud800":1}}', '{"v":1,"p":{"\ud800":1}}'),
        ):
            with self.subTest(text=text):
                self.assertIsNone(stats.decode(text))

    def test_another_version_is_none(self) -> None:
        for version in (0, 2, '1', None):
            with self.subTest(version=version):
                text = json.dumps({'v': version, 'p': {}})
                self.assertIsNone(stats.decode(text))

    def test_more_than_a_document_is_none(self) -> None:
        for more in ('{}', 'x', ' '):
            with self.subTest(more=more):
                self.assertIsNotNone(stats.decode('{"v":1,"p":{}}'))
                self.assertIsNone(stats.decode('{"v":1,"p":{}}' + more))

    def test_providers_of_another_form_are_none(self) -> None:
        self.assertIsNone(stats.decode('{"v":1,"p":[]}'))

    def test_nesting_without_end_is_none(self) -> None:
        self.assertIsNone(stats.decode('[' * 100000))


class TestMakeView(base.TestCase):
    def test_a_tracker_that_is_not_installed_here_is_left_out(self) -> None:
        document = make_document({'t': 'device', 's': {}})

        self.assertEqual({}, stats.make_view(document, TRACKERS).tracked)

    def test_a_broken_record_is_left_out(self) -> None:
        state = {'c': 4, 'u': 0}
        records: tuple[Any, ...] = (
            None,
            7,
            'text',
            [],
            {},
            {'t': 'count'},
            {'t': ['count'], 's': state},
            {'t': 'count', 's': None},
            {'t': 'count', 's': {'c': 4}},
            {'t': 'count', 's': {'c': 'x', 'u': 0}},
            {'t': 'count', 's': {'c': True, 'u': 0}},
            {'t': 'count', 's': {'c': 4.0, 'u': 0}},
            {'t': 'count', 's': {'c': 4, 'u': -1}},
            {'t': 'count', 's': {'c': 10**30, 'u': 0}},
            {'t': 'cache_ways', 's': {'w': 7, 't': '0'}},
            {'t': 'cache_ways', 's': {'w': '-7', 't': '0'}},
            {'t': 'count', 's': state, 'i': ['one']},
            {'t': 'count', 's': state, 'i': 5},
            {'t': 'count', 's': state, 'c': 'all of them'},
            {'t': 'count', 's': state, 'c': 3},
            {'t': 'count', 's': state, 'c': ['0-3']},
        )
        for record in records:
            with self.subTest(record=record):
                seen = stats.make_view(make_document(record), TRACKERS)
                self.assertEqual({}, seen.tracked)

    def test_a_broken_record_does_not_take_others_down(self) -> None:
        text = json.dumps(
            {
                'f': {builders.WAYS: [10, 0], builders.CLOS: [6, 0]},
                'v': 1,
                'p': {
                    builders.L3_0: 'broken',
                    builders.L3_1: {builders.WAYS: 'broken'},
                    builders.RDT: {
                        builders.CLOS: {'t': 'count', 's': {'c': 4, 'u': 0}}
                    },
                },
            }
        )
        document = stats.decode(text)
        assert document is not None

        seen = stats.make_view(document, TRACKERS)

        self.assertEqual({(builders.RDT, builders.CLOS)}, set(seen.tracked))

    @hypothesis.given(providers=st.dictionaries(st.text(), json_values))
    def test_no_document_breaks_the_scheduler(
        self, providers: dict[str, Any]
    ) -> None:
        document = stats.decode(json.dumps({'v': 1, 'p': providers}))
        assert document is not None

        self.assertEqual({}, stats.make_view(document, TRACKERS).tracked)
