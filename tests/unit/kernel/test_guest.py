# SPDX-License-Identifier: Apache-2.0

"""What is printed of the steps of guests."""

import contextlib
import io
import pathlib

import fixtures

from dev.kernel.boot import guest
from tests import base


class OutputTest(base.TestCase):
    def test_each_line_is_printed_once_and_whole(self) -> None:
        path = pathlib.Path(self.useFixture(fixtures.TempDir()).path, 'output')
        printed = io.StringIO()
        with (
            path.open('w') as written,
            path.open() as read,
            contextlib.redirect_stdout(printed),
        ):
            output = guest.Output(read, '6.12-granite')
            for words in ('pass one\npa', 'ss two\n', '', 'no end'):
                written.write(words)
                written.flush()
                output.copy()
            self.assertNotIn('no end', printed.getvalue())
            output.copy(is_over=True)

        self.assertEqual(
            [
                '6.12-granite: pass one',
                '6.12-granite: pass two',
                '6.12-granite: no end',
            ],
            printed.getvalue().splitlines(),
        )
