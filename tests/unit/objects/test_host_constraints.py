# SPDX-License-Identifier: Apache-2.0

"""Tests of what hosts declare that they can never do."""

import json

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources.objects import host_constraints
from tests import base
from tests.unit import builders
from tests.unit import strategies  # noqa: F401 (the profile)

_names = st.frozensets(st.sampled_from(['CUSTOM_A', 'CUSTOM_B', 'rmd:key']))
of_classes = st.builds(
    host_constraints.ClassConstraints,
    attributes=st.none()
    | st.dictionaries(
        st.sampled_from(['max', 'code']),
        st.integers(min_value=0, max_value=3),
    ),
    needs=_names,
    needs_beside=_names,
    excludes=_names,
    excludes_beside=_names,
    is_uniform=st.booleans(),
    needs_cores=st.booleans(),
)
of_hosts = st.builds(
    host_constraints.Constraints,
    enforcers=st.none() | st.frozensets(st.sampled_from(['rmd', 'noop'])),
    tests=st.none() | st.lists(st.sampled_from(['a', 'b'])).map(tuple),
    classes=st.dictionaries(st.sampled_from(['CUSTOM_A', 'C']), of_classes),
    spreads_pins=st.booleans(),
    refused=st.dictionaries(
        st.sampled_from(['CUSTOM_A', 'C']), st.sampled_from(['stalled', ''])
    ),
)


class TestConstraints(base.TestCase):
    @hypothesis.given(one=of_hosts)
    def test_what_is_read_is_what_was_written(
        self, one: host_constraints.Constraints
    ) -> None:
        written = json.loads(json.dumps(one.to_dict()))

        self.assertEqual(one, host_constraints.Constraints.from_dict(written))

    def test_what_a_newer_host_adds_is_passed_over(self) -> None:
        written = {
            'c': {builders.WAYS: {'u': 1, 'z': [5]}},
            'z': {'more': 1},
        }

        read = host_constraints.Constraints.from_dict(written)

        self.assertIsNone(read.enforcers)
        self.assertEqual(
            {
                builders.WAYS: host_constraints.ClassConstraints(
                    is_uniform=True
                )
            },
            read.classes,
        )

    def test_nothing_is_constrained_by_default(self) -> None:
        self.assertFalse(host_constraints.Constraints())
        self.assertEqual({}, host_constraints.ClassConstraints().to_dict())


class TestUnite(base.TestCase):
    @hypothesis.given(one=of_classes)
    def test_one_alone_is_as_it_was(
        self, one: host_constraints.ClassConstraints
    ) -> None:
        self.assertEqual({'A': one}, host_constraints.unite([{'A': one}, {}]))
        self.assertEqual(
            {'A': one}, host_constraints.unite([{'A': one}, {'A': one}])
        )

    def test_the_stricter_of_each_holds(self) -> None:
        united = host_constraints.unite(
            [
                {
                    'A': host_constraints.ClassConstraints(
                        attributes={'max': 1, 'code': 1},
                        excludes=frozenset({'B'}),
                    )
                },
                {
                    'A': host_constraints.ClassConstraints(
                        attributes={'max': 0},
                        is_uniform=True,
                        needs_cores=True,
                    )
                },
            ]
        )

        self.assertEqual(
            {
                'A': host_constraints.ClassConstraints(
                    attributes={'max': 1},
                    excludes=frozenset({'B'}),
                    is_uniform=True,
                    needs_cores=True,
                )
            },
            united,
        )
