# SPDX-License-Identifier: Apache-2.0

"""Tests of what Nova's fault and events of a server say."""

from typing import Any

from nova_ext_resources.inspection import history
from tests import base

#: Longer than what Nova keeps.
LONG = 'Host has no room: ' + ', '.join(f'cache {n}' for n in range(60))
CUT = LONG[:255]


def make_event(name: str, result: str | None, **fields: Any) -> dict[str, Any]:
    return {
        'event': name,
        'result': result,
        'start_time': '2026-01-01T00:00:00.000000',
        **fields,
    }


def make_action(name: str, *events: dict[str, Any]) -> dict[str, Any]:
    return {
        'action': name,
        'request_id': 'req-1',
        'start_time': '2026-01-01T00:00:00.000000',
        'message': 'Error',
        'events': [*events],
    }


class CompleteTest(base.TestCase):
    def test_a_short_message_is_whole(self) -> None:
        traceback = '  File "a.py"\nHostRefused: no room\nand more'

        self.assertEqual('no room', history.complete('no room', traceback))

    def test_a_long_one_is_found_in_the_traceback(self) -> None:
        text = f'  File "a.py", line 1\nnova.HostRefused: {LONG}\n'

        self.assertEqual(LONG, history.complete(CUT, text))

    def test_what_is_behind_it_is_no_part_of_it(self) -> None:
        for more in (
            '\nTraceback (most recent call last):\n',
            '\n\nDuring handling of the above exception, another',
            '\n\nThe above exception was the direct cause of',
        ):
            found = history.complete(CUT, f'NoValidHost: {LONG}{more} File')

            self.assertEqual(LONG, found)

    def test_without_a_traceback_its_end_is_marked(self) -> None:
        self.assertEqual(f'{CUT}...', history.complete(CUT, ''))

    def test_nova_counts_bytes_and_cuts_no_character(self) -> None:
        kept = 'x' * 252

        self.assertEqual(f'{kept}...', history.complete(kept, ''))
        self.assertEqual('ü' * 100, history.complete('ü' * 100, ''))
        self.assertEqual('ü' * 127 + '...', history.complete('ü' * 127, ''))


class FaultTest(base.TestCase):
    def test_a_server_without_one(self) -> None:
        self.assertEqual('', history.read_fault({}))

    def test_one_whose_details_are_hidden(self) -> None:
        self.assertEqual(
            'no host', history.read_fault({'fault': {'message': 'no host'}})
        )

    def test_one_that_was_cut(self) -> None:
        fault = {'message': CUT, 'details': f'Traceback\nNoValidHost: {LONG}'}

        self.assertEqual(LONG, history.read_fault({'fault': fault}))


class ActionTest(base.TestCase):
    def test_failed_events_in_their_order(self) -> None:
        action = make_action(
            'create',
            make_event(
                'ext_resources_claim:b',
                'Error',
                start_time='2026-01-01T00:00:02.000000',
                details=CUT,
                traceback=f'HostRefused: {LONG}',
                host='node2',
            ),
            make_event('compute_build', 'Success', details=None),
            make_event('ext_resources_claim:a', 'Error', details='none left'),
        )

        self.assertEqual(
            [
                {
                    'event': 'ext_resources_claim:a',
                    'host': '',
                    'reason': 'none left',
                },
                {
                    'event': 'ext_resources_claim:b',
                    'host': 'node2',
                    'reason': LONG,
                },
            ],
            history.read_action(action)['events'],
        )
        self.assertFalse(history.hides_reasons(action))

    def test_an_owner_is_shown_no_reasons(self) -> None:
        action = make_action('create', make_event('build', 'Error'))

        self.assertTrue(history.hides_reasons(action))
        [event] = history.read_action(action)['events']
        self.assertEqual('', event['reason'])

    def test_the_last_action_that_needed_room(self) -> None:
        actions = [make_action(one) for one in ('reboot', 'migrate', 'create')]

        found = history.find_move(actions)

        assert found is not None
        self.assertEqual('migrate', found['action'])
        self.assertIsNone(history.find_move(actions[:1]))


class RefusedTest(base.TestCase):
    def is_refused(self, *events: tuple[str, str | None]) -> bool:
        return history.is_refused(
            make_action('create', *(make_event(*one) for one in events))
        )

    def test_no_host_was_asked(self) -> None:
        self.assertTrue(self.is_refused(('conductor_schedule', 'Error')))

    def test_all_hosts_refused(self) -> None:
        self.assertTrue(
            self.is_refused(
                ('ext_resources_claim:a', 'Error'),
                ('ext_resources_claim:b', 'Error'),
                # Nova ends the first event of a name.
                ('conductor_migrate_server', None),
            )
        )

    def test_the_next_host_took_it(self) -> None:
        self.assertFalse(
            self.is_refused(
                ('ext_resources_claim:a', 'Error'),
                ('ext_resources_claim:b', 'Success'),
            )
        )

    def test_a_failure_after_the_claim_is_no_lack_of_room(self) -> None:
        self.assertFalse(
            self.is_refused(
                ('ext_resources_claim:a', 'Success'),
                ('ext_resources_apply:a', 'Error'),
            )
        )

    def test_a_host_that_still_claims_has_not_refused(self) -> None:
        self.assertFalse(
            self.is_refused(
                ('ext_resources_claim:a', 'Error'),
                ('ext_resources_claim:b', None),
            )
        )
