# SPDX-License-Identifier: Apache-2.0

"""Which acts are played."""

import contextlib
import io

from dev.demo import cli
from dev.demo import story
from tests import base


class ChooseTest(base.TestCase):
    def choose(self, backend: str, *names: str) -> list[str]:
        chosen = story.choose(names, backend)
        return [name for name, act in story.ACTS.items() if act in chosen]

    def test_without_a_name_all_are_played_that_the_backend_has(self) -> None:
        self.assertEqual([*story.ACTS], self.choose('resctrl'))
        self.assertEqual(
            {'enforced', 'floating', 'burst'},
            {*story.ACTS} - {*self.choose('rmd')},
        )

    def test_what_an_act_needs_is_played_before(self) -> None:
        self.assertEqual(
            ['discovered', 'flavors', 'boot', 'enforced'],
            self.choose('resctrl', 'enforced'),
        )
        self.assertEqual(
            ['discovered', 'flavors', 'outage', 'balance'],
            self.choose('rmd', 'balance'),
        )

    def test_several_acts_are_played_in_their_order(self) -> None:
        self.assertEqual(
            ['discovered', 'flavors', 'moves', 'reservation'],
            self.choose('rmd', 'reservation', 'moves'),
        )

    def test_acts_need_only_what_comes_before_them(self) -> None:
        names = [*story.ACTS]
        for number, name in enumerate(names):
            with self.subTest(name):
                self.assertLessEqual(
                    {*story.ACTS[name].needs}, {*names[:number]}
                )

    def test_an_act_of_another_backend_is_refused_before_all(self) -> None:
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            err = self.assertRaises(SystemExit, cli.main, ['--act', 'burst'])

        self.assertEqual(2, err.code)
        self.assertIn('--backend resctrl only', said.getvalue())

    def test_an_unknown_act_is_refused_with_all_that_there_are(self) -> None:
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            self.assertRaises(SystemExit, cli.main, ['--act', 'encore'])

        self.assertIn('reservation', said.getvalue())
