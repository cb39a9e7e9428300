# SPDX-License-Identifier: Apache-2.0

"""Tests of what may be asked for."""

from typing import Any

from nova_ext_resources.reservation import event
from nova_ext_resources.reservation import subscription
from tests import base

URL = 'https://example.org/'
OF_CAPACITY: dict[str, Any] = {
    'zone': 'one',
    'resource_class': 'VCPU',
    'threshold': 1,
}


class SubscriptionTest(base.TestCase):
    def make(
        self, project: str = '', **document: Any
    ) -> subscription.Subscription:
        return subscription.make_subscription(
            {'url': URL, **document}, uuid='1', project=project, now=1
        )

    def test_all_of_reservations_where_nothing_is_said(self) -> None:
        made = self.make('red')

        self.assertEqual(11, len(made.kinds))
        self.assertEqual((3600,), made.remaining)
        self.assertFalse(made.is_private)
        self.assertTrue(self.make().is_private)

    def test_what_makes_no_sense(self) -> None:
        for project, document, key in (
            ('', {'uri': URL}, 'uri'),
            ('', {'url': 1}, 'url'),
            ('', {'events': 'reservation'}, 'events'),
            ('', {'events': ['reservation.sold']}, 'events'),
            ('', {'events': []}, 'events'),
            ('', {'events': ['capacity']}, 'events'),
            ('', {'remaining': ['59s']}, 'remaining'),
            ('', {'remaining': ['367d']}, 'remaining'),
            ('', {'remaining': ['a']}, 'remaining'),
            (
                '',
                {'remaining': [f'{one}h' for one in range(1, 12)]},
                'remaining',
            ),
            ('', {'events': ['allocation'], 'remaining': ['1h']}, 'remaining'),
            ('', {'reservation': 300 * 'x'}, 'reservation'),
            ('', {'secret': 'mine'}, 'secret'),
            ('', {'zone': 'one'}, 'resource_class'),
            ('', {**OF_CAPACITY, 'zone': 'a\n'}, 'zone'),
            ('', {**OF_CAPACITY, 'resource_class': 'vcpu'}, 'resource_class'),
            ('', {**OF_CAPACITY, 'threshold': 0}, 'threshold'),
            ('', {**OF_CAPACITY, 'threshold': True}, 'threshold'),
            ('', {**OF_CAPACITY, 'events': ['reservation']}, 'events'),
            ('', {**OF_CAPACITY, 'reservation': 'one'}, 'reservation'),
            ('red', OF_CAPACITY, 'zone'),
            ('a\n', {}, 'project'),
        ):
            with self.subTest(document=document):
                err = self.assertRaises(
                    ValueError, self.make, project, **document
                )
                self.assertEqual(key, str(err).partition(':')[0])

    def test_of_capacity(self) -> None:
        made = self.make(**OF_CAPACITY)

        self.assertEqual({event.Kind.LOW, event.Kind.ENOUGH}, made.kinds)
        self.assertEqual((), made.remaining)

    def test_no_text_of_it_has_its_secret(self) -> None:
        made = self.make()

        self.assertNotIn(made.secret, repr(made))
