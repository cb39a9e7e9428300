# SPDX-License-Identifier: Apache-2.0

"""Tests of metrics in a file."""

import pathlib

from prometheus_client import parser

from nova_ext_resources.reservation import figures
from nova_ext_resources.reservation.site import metrics
from nova_ext_resources.reservation import state
from tests import base

FIGURES = figures.Figures(
    measured_at=1893456000,
    kinds={
        ('north "1"', 'VCPU'): figures.Figure(
            total=8,
            used=1,
            promised=4,
            taken=2,
            available=3,
            lent=5,
            degraded=6,
        ),
        ('', 'MEMORY_MB'): figures.Figure(
            total=1, used=0, promised=0, available=1
        ),
    },
    reservations={state.State.ACTIVE: 7},
    taken=2,
    free=1,
)


class MetricsTest(base.TestCase):
    def read(self) -> dict[tuple[str, ...], float]:
        text = self.path.read_text(encoding='utf-8')
        return {
            (
                sample.name,
                *(sample.labels[one] for one in sorted(sample.labels)),
            ): sample.value
            for family in parser.text_string_to_metric_families(text)
            for sample in family.samples
        }

    def setUp(self) -> None:
        super().setUp()
        self.path = pathlib.Path(self.make_folder(), 'x.prom')
        metrics.write(str(self.path), FIGURES)

    def test_what_is_written(self) -> None:
        found = self.read()

        for name, value in (
            ('total', 8),
            ('used', 1),
            ('promised', 4),
            ('taken', 2),
            ('available', 3),
            ('lent', 5),
            ('degraded', 6),
        ):
            key = f'nova_ext_resources_reservation_{name}_units'
            self.assertEqual(value, found[key, 'VCPU', 'north "1"'])
        prefix = 'nova_ext_resources_reservation'
        for series, number in (
            ((f'{prefix}s', 'active'), 7.0),
            ((f'{prefix}_places', 'taken'), 2.0),
            ((f'{prefix}_places', 'free'), 1.0),
            ((f'{prefix}_measured_timestamp_seconds',), 1893456000.0),
        ):
            self.assertEqual(number, found[series])
        self.assertEqual(18, len(found))

    def test_nothing_else_is_left_in_its_folder(self) -> None:
        metrics.write(str(self.path), FIGURES)

        self.assertEqual([self.path], [*self.path.parent.iterdir()])

    def test_each_field_has_a_metric(self) -> None:
        self.assertEqual(
            {*figures.Figure.__dataclass_fields__}, {*metrics._AMOUNTS}
        )

    def test_a_folder_that_is_not_there(self) -> None:
        self.assertRaises(OSError, metrics.write, '/nowhere/x.prom', FIGURES)
