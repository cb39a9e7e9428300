# SPDX-License-Identifier: Apache-2.0

"""What of a log is shown as a reason."""

from dev.demo import reasons
from tests import base


class ReasonsTest(base.TestCase):
    def test_the_traceback_of_another_host_is_left_out(self) -> None:
        self.assertEqual(
            'Error from last host: cpu1 (node cpu1):',
            reasons._clean(
                'Error from last host: cpu1 (node cpu1): '
                "['Traceback (most recent call last):\\n', '  File']"
            ),
        )
