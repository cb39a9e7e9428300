# SPDX-License-Identifier: Apache-2.0

import datetime
import json
import os
import pathlib
import stat
from typing import Any

from nova_ext_resources.testing import fake_clock
from nova_ext_resources.tuning import audit
from nova_ext_resources.tuning import pressure
from nova_ext_resources.tuning import steps
from tests import base
from tests.unit.tuning import builders

NOON = datetime.datetime(2026, 5, 4, 12, tzinfo=datetime.UTC)

BEFORE = (builders.make_tunable('a'), builders.make_tunable('b', amount=5))


def make_move(**fields: Any) -> steps.UnitMove:
    rp_key, resource_class = builders.WAYS
    given: dict[str, Any] = {
        'rp_key': rp_key,
        'resource_class': resource_class,
        'units': 1,
        'taker': 'b',
        'giver': 'a',
        'kind': steps.StepKind.WANTED,
        'reason': 'waits more for memory than the other server',
        'pressures': {'a': 0.1, 'b': 0.81234},
    }
    return steps.UnitMove(**{**given, **fields})


class AuditTrailTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.path = pathlib.Path(self.make_folder(), 'deep', 'trail.jsonl')

    def make_trail(self, **fields: Any) -> audit.AuditTrail:
        return audit.AuditTrail(
            str(self.path),
            host='cn1',
            clock=fake_clock.FakeClock(read=lambda: NOON),
            **fields,
        )

    def write(self, trail: audit.AuditTrail, **fields: Any) -> None:
        given: dict[str, Any] = {
            'outcome': audit.StepOutcome.APPLIED,
            'before': BEFORE,
        }
        trail.write(make_move(), **{**given, **fields})

    def read(self) -> list[dict[str, Any]]:
        return [json.loads(one) for one in self.path.read_text().splitlines()]

    def test_a_line_says_who_what_and_why(self) -> None:
        reading = pressure.PressureReading(
            consumer_uuid='b',
            rp_key=builders.L3,
            llc_bytes=100.0,
            memory_bytes=9.0,
        )

        self.write(self.make_trail(), readings=[reading])

        taker, giver = self.read()
        self.assertEqual(
            {
                'at': '2026-05-04T12:00:00.000+00:00',
                'host': 'cn1',
                'outcome': 'applied',
                'server': 'b',
                'provider': 'L3_0',
                'resource_class': 'CUSTOM_LLC_WAYS_BURST',
                'before': 5,
                'after': 6,
                'minimum': 2,
                'maximum': 10,
                'peer': 'a',
                'kind': 'wanted',
                'reason': 'waits more for memory than the other server',
                'pressures': {'a': 0.1, 'b': 0.8123},
                'measured': {
                    'b': {'llc_bytes': 100.0, 'memory_bytes_per_second': 9.0}
                },
                'error': '',
            },
            taker,
        )
        self.assertEqual(
            ('a', 4, 3, 'b'),
            tuple(giver[key] for key in ('server', 'before', 'after', 'peer')),
        )
        self.assertIn('gives units to server b', giver['reason'])

    def test_not_every_user_of_the_host_may_read_it(self) -> None:
        self.addCleanup(os.umask, os.umask(0o022))

        self.write(self.make_trail())

        self.assertEqual(0o640, stat.S_IMODE(self.path.stat().st_mode))

    def test_a_line_that_was_torn_spoils_no_other(self) -> None:
        trail = self.make_trail()
        self.write(trail)
        with self.path.open('a') as file:
            file.write('{"at": "2026-0')

        self.write(trail)

        lines = self.path.read_text().splitlines()
        self.assertEqual('{"at": "2026-0', lines.pop(2))
        self.assertEqual(4, len([json.loads(one) for one in lines]))

    def test_a_failure_says_so(self) -> None:
        self.write(
            self.make_trail(), outcome=audit.StepOutcome.FAILED, error='ENOSPC'
        )

        self.assertEqual(
            [('failed', 'ENOSPC')] * 2,
            [(one['outcome'], one['error']) for one in self.read()],
        )

    def test_what_comes_from_nobody_is_one_line(self) -> None:
        self.make_trail().write(
            make_move(giver=None),
            outcome=audit.StepOutcome.APPLIED,
            before=BEFORE,
        )

        [one] = self.read()
        self.assertIsNone(one['peer'])

    def test_it_is_bounded(self) -> None:
        trail = self.make_trail(max_bytes=2000)

        for _ in range(20):
            self.write(trail)

        names = sorted(os.listdir(self.path.parent))
        self.assertEqual(['trail.jsonl', 'trail.jsonl.1'], names)
        for name in names:
            size = os.stat(self.path.parent / name).st_size
            self.assertLessEqual(size, 2000)
        self.assertEqual('', trail.problem)

    def test_a_full_disk_is_a_problem_and_no_error(self) -> None:
        self.path.parent.mkdir()
        self.path.mkdir()
        trail = self.make_trail()

        self.write(trail)

        self.assertIn(str(self.path), trail.problem)
        self.path.rmdir()
        self.write(trail)
        self.assertEqual('', trail.problem)

    def test_a_file_that_was_moved_away_is_begun_anew(self) -> None:
        trail = self.make_trail()
        self.write(trail)
        self.path.rename(self.path.with_suffix('.old'))

        self.write(trail)

        self.assertEqual(2, len(self.read()))

    def test_a_link_is_not_followed(self) -> None:
        self.path.parent.mkdir()
        other = self.path.with_suffix('.other')
        self.path.symlink_to(other)
        trail = self.make_trail()

        self.write(trail)

        self.assertFalse(other.exists())
        self.assertIn(str(self.path), trail.problem)
