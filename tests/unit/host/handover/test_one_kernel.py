# SPDX-License-Identifier: Apache-2.0

"""Hand-overs as the manual has them: RMD's groups are in the kernel."""

from typing import Any

from nova_ext_resources.host.handover import errors
from tests.unit.host.handover import test_pools
from tests.unit.host.handover import with_both

ALL_GROUPS = ', '.join(f'COS{number}' for number in range(1, 8))


class OneKernelTest(test_pools.PoolsTestCase, with_both.OneKernelTestCase):
    """Servers have ways of their own, burst ways, and the shared pool's."""

    def stop(self, source: str, target: str, **how: Any) -> str:
        err = self.assertRaises(
            errors.HandOverFailed, self.hand_over, source, target, **how
        )
        return str(err)

    def assert_groups_are_named(self, text: str) -> None:
        for words in (
            f'control groups of rmd, or of pqos ({ALL_GROUPS})',
            'make sure that nothing needs the settings of pqos',
            'systemctl disable --now rmd',
            'rmdir /sys/fs/resctrl/COS[1-9]*',
        ):
            self.assertIn(words, text)

    def remove_rmd(self) -> None:
        self.stop_rmd()
        self.remove_rmd_groups()

    def test_from_rmd_to_resctrl_in_two_runs(self) -> None:
        before = self.fill('rmd')

        text = self.stop('rmd', 'resctrl')

        self.assert_groups_are_named(text)
        self.assertIn('the same command again', text)
        self.assertEqual({}, self.list_at_rmd())
        self.remove_rmd()
        self.hand_over('rmd', 'resctrl')
        self.assert_all_at('resctrl', before)

    def test_a_dry_run_says_that_it_takes_two_runs(self) -> None:
        before = self.fill('rmd')
        made = self.make('rmd', 'resctrl')

        made.check()

        made.ledger.close()
        self.assert_untouched(before)
        self.assertEqual(6, sum('would apply' in one for one in self.said))
        self.assertIn('The hand-over takes two runs', self.said[-1])
        self.assert_groups_are_named(self.said[-1])

    def test_after_the_first_run_it_can_go_back(self) -> None:
        before = self.fill('rmd')
        self.stop('rmd', 'resctrl')

        self.hand_over('resctrl', 'rmd')

        self.assert_all_at('rmd', before)

    def test_what_an_rmd_that_is_gone_has_left_is_named(self) -> None:
        before = self.fill('rmd')
        self.stop_rmd()

        text = self.stop('rmd', 'resctrl', is_source_gone=True)

        self.assert_groups_are_named(text)
        self.assertIn('Nothing was changed', text)
        self.assert_untouched(before)
        self.remove_rmd()
        self.hand_over('rmd', 'resctrl', is_source_gone=True)
        self.assert_all_at('resctrl', before)

    def test_from_resctrl_to_an_rmd_that_cannot_start_before(self) -> None:
        self.remove_rmd()
        before = self.fill('resctrl')
        self.assertIn('--unchecked', self.stop('resctrl', 'rmd'))
        self.assert_untouched(before)

        self.stop('resctrl', 'rmd', is_checked=False)

        self.assertEqual({}, self.list_at_resctrl())
        self.start_rmd()
        self.hand_over('resctrl', 'rmd')
        self.assert_all_at('rmd', before)
