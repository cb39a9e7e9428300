# SPDX-License-Identifier: Apache-2.0

"""Tests of yes and no."""

from typing import Any

from nova_ext_resources.reservation.blazar import flag
from tests import base


class FlagTest(base.TestCase):
    def test_what_is_said(self) -> None:
        for value, wanted in (
            ('1', True),
            ('true', True),
            ('True', True),
            (True, True),
            (1, True),
            ('0', False),
            ('false', False),
            (False, False),
            (0, False),
        ):
            self.assertIs(wanted, flag.read({'force': value}, 'force'))
        self.assertIs(False, flag.read({'all': 1}, 'force'))

    def test_what_says_nothing(self) -> None:
        values: list[Any] = ['', 'no', 'yes', 2, 1.0, None, [], {}]
        for value in values:
            with self.subTest(value=value):
                err = self.assertRaises(
                    ValueError, flag.read, {'force': value}, 'force'
                )
                self.assertIn('force is', str(err))
