# SPDX-License-Identifier: Apache-2.0

"""What a resctrl must do, whichever front shows it.

:class:`Cases` is run over the front inside the process, and over a FUSE
mount. It knows nothing but files.
"""

from collections.abc import Iterator
import contextlib
import errno
import threading
from typing import Any

from nova_ext_resources.testing import resctrl
from tests import base
from tests import machines

STATUS = 'info/last_cmd_status'


class WithTree(base.TestCase):
    """Has a machine; ``use`` takes another one.

    :ivar fs: the file operations
    :ivar kernel: behind the scenes
    """

    def setUp(self) -> None:
        super().setUp()
        self.use('skylake2')

    def use(self, shape: str | resctrl.Shape) -> None:
        made = self.make_machine(shape)
        self.machine = made
        self.fs, self.kernel = made.file_system, made.kernel

    def make_machine(self, shape: str | resctrl.Shape) -> Any:
        return self.useFixture(machines.make(shape))

    @contextlib.contextmanager
    def refused(
        self, number: int = errno.EINVAL, words: str | None = None
    ) -> Iterator[None]:
        """Expect an errno, and what the kernel says of it."""
        try:
            yield
        except OSError as err:
            self.assertEqual(
                errno.errorcode[number], errno.errorcode[err.errno or 0]
            )
        else:
            self.fail(f'{errno.errorcode[number]} was expected')
        if words is not None:
            self.assertEqual(words, self.fs.read(STATUS))

    def read_values(self, group: str, resource: str) -> dict[str, str]:
        """Give domain -> text of one line of a schemata file."""
        path = f'{group}/schemata' if group else 'schemata'
        for line in self.fs.read(path).splitlines():
            name, _colon, rest = line.partition(':')
            if name.strip() == resource:
                pairs = (part.split('=') for part in rest.split(';'))
                return {domain: value.strip() for domain, value in pairs}
        raise AssertionError(f'{path} has no {resource}')

    def read_lines(self, path: str) -> list[str]:
        text: str = self.fs.read(path)
        return text.split()


class SchemataCases(WithTree):
    def test_a_new_group_may_use_all(self) -> None:
        self.fs.mkdir('web')

        text = self.fs.read('web/schemata')

        self.assertEqual('    MB:0=100;1=100\n    L3:0=7ff;1=7ff\n', text)

    def test_what_was_written_is_read_padded_to_one_width(self) -> None:
        self.fs.mkdir('web')

        self.fs.write('web/schemata', 'L3:1=3\nMB:0=20\n')

        self.assertEqual(
            '    MB:0= 20;1=100\n    L3:0=7ff;1=003\n',
            self.fs.read('web/schemata'),
        )
        self.assertEqual('ok\n', self.fs.read(STATUS))

    def test_a_late_kernel_pads_no_more(self) -> None:
        self.use('granite')
        self.fs.mkdir('web')

        self.fs.write('web/schemata', 'L3:1=3\nMB:0=20\n')

        lines = self.fs.read('web/schemata').splitlines()
        self.assertEqual('    MB:0=20;1=100', lines[0])
        self.assertEqual('    L3:0=ffff;1=3', lines[2])

    def test_what_is_read_can_be_written_back_on_every_machine(self) -> None:
        for name in sorted(set(machines.list_shapes()) - {'mbps'}):
            with self.subTest(name):
                self.use(name)
                text = self.fs.read('schemata')

                self.fs.write('schemata', text)

                self.assertEqual(text, self.fs.read('schemata'))

    def test_values_are_refused_with_the_kernels_words(self) -> None:
        self.fs.mkdir('web')
        cases = {
            'L3:0=5\n': 'The mask 5 has non-consecutive 1-bits\n',
            'L3:0=0\n': 'Mask out of range\n',
            'L3:0=fff\n': 'Mask out of range\n',
            'L3:0=xyz\n': 'Non-hex character in the mask xyz\n',
            'L3:0=\n': 'Non-hex character in the mask \n',
            'L3:0\n': "Missing '=' or non-numeric domain\n",
            'L3:zero=1\n': "Missing '=' or non-numeric domain\n",
            'L3:0=1;0=1\n': 'Duplicate domain 0\n',
            'L3\n': "Missing ':'\n",
            'L3:\n': "Missing 'L3' value\n",
            'L3:0=1\n\n': "Missing ':'\n",
            'L2:0=1\n': "Unknown or unsupported resource name 'L2'\n",
            'MB:0=9\n': 'MB value 9 out of range [10,100]\n',
            'MB:0=101\n': 'MB value 101 out of range [10,100]\n',
            'MB:0=ten\n': 'Non-decimal digit in MB value ten\n',
            'MB:0=-10\n': 'Non-decimal digit in MB value -10\n',
            # The kernel does not say why.
            'L3:2=1\n': 'ok\n',
        }
        for text, words in cases.items():
            with self.subTest(text), self.refused(words=words):
                self.fs.write('web/schemata', text)

    def test_one_wrong_value_keeps_all_others_from_being_set(self) -> None:
        self.fs.mkdir('web')
        before = self.fs.read('web/schemata')

        with self.refused():
            self.fs.write('web/schemata', 'MB:0=20\nL3:0=3;1=5\n')

        self.assertEqual(before, self.fs.read('web/schemata'))

    def test_a_line_without_its_end_is_refused_without_a_word(self) -> None:
        self.fs.mkdir('web')
        with self.refused():
            self.fs.write('web/schemata', 'L3:0=5\n')

        with self.refused(words='The mask 5 has non-consecutive 1-bits\n'):
            self.fs.write('web/schemata', 'L3:0=3')

    def test_haswell_wants_two_ways(self) -> None:
        self.use('haswell')

        with self.refused(words='Need at least 2 bits in the mask\n'):
            self.fs.write('schemata', 'L3:0=1\n')

    def test_amd_takes_masks_with_gaps_and_without_a_way(self) -> None:
        self.use('epyc16')
        self.fs.mkdir('web')

        self.fs.write('web/schemata', 'L3:0=8001;15=0\n')

        values = self.read_values('web', 'L3')
        self.assertEqual(('8001', '0000'), (values['0'], values['15']))
        self.assertEqual('1\n', self.fs.read('info/L3/sparse_masks'))

    def test_percent_are_rounded_up_to_a_step(self) -> None:
        self.fs.mkdir('web')

        self.fs.write('web/schemata', 'MB:0=11;1=90\n')

        self.assertEqual({'0': '20', '1': '90'}, self.read_values('web', 'MB'))

    def test_amd_counts_eighths_of_a_gigabyte(self) -> None:
        self.use('epyc16')
        self.fs.mkdir('web')

        self.fs.write('web/schemata', 'MB:1=17\n')

        self.assertEqual('17', self.read_values('web', 'MB')['1'])
        self.assertIn(';1=  17;', self.fs.read('web/schemata'))
        with self.refused(words='MB value 2049 out of range [0,2048]\n'):
            self.fs.write('web/schemata', 'MB:1=2049\n')
        self.assertEqual('0\n', self.fs.read('info/MB/delay_linear'))

    def test_megabytes_have_no_upper_end(self) -> None:
        self.use('mbps')
        self.fs.mkdir('web')
        first = self.read_values('web', 'MB')['0']

        self.fs.write('web/schemata', 'MB:0=4321\n')

        self.assertEqual('4294967295', first)
        # This kernel rounds even here; the ones since 6.12 do not.
        self.assertEqual('4330', self.read_values('web', 'MB')['0'])

    def test_old_kernels_make_next_to_nothing_of_no_limit(self) -> None:
        self.use('mbps')

        self.fs.write('schemata', self.fs.read('schemata'))

        # They round 2**32 - 1 up, and keep 32 bits of it.
        self.assertEqual('4', self.read_values('', 'MB')['0'])

    def test_megabytes_are_set_though_the_rest_is_refused(self) -> None:
        self.use('mbps')
        self.fs.mkdir('web')

        with self.refused():
            self.fs.write('web/schemata', 'MB:0=4000\nL3:0=5\n')

        self.assertEqual('4000', self.read_values('web', 'MB')['0'])

    def test_code_and_data_have_lines_of_their_own(self) -> None:
        self.use('cdp')
        self.fs.mkdir('web')

        self.fs.write('web/schemata', 'L3CODE:0=3\nL3DATA:0=1c\n')

        self.assertEqual(
            '    MB:0=100;1=100\nL3DATA:0=01c;1=7ff\nL3CODE:0=003;1=7ff\n',
            self.fs.read('web/schemata'),
        )
        self.assertEqual('8\n', self.fs.read('info/L3CODE/num_closids'))

    def test_the_size_is_that_of_the_ways(self) -> None:
        self.fs.mkdir('web')

        self.fs.write('web/schemata', 'L3:0=3\nMB:0=20\n')

        self.assertEqual(
            '    MB:0=20;1=100\n    L3:0=4718592;1=25952256\n',
            self.fs.read('web/size'),
        )

    def test_a_zero_byte_ends_what_is_written(self) -> None:
        self.fs.mkdir('web')

        self.fs.write('web/schemata', 'L3:0=3\0xyz\n')

        self.assertEqual('003', self.read_values('web', 'L3')['0'])


class GroupCases(WithTree):
    def test_there_are_as_many_classes_as_the_poorest_control_has(
        self,
    ) -> None:
        self.assertEqual('16\n', self.fs.read('info/L3/num_closids'))
        self.assertEqual('8\n', self.fs.read('info/MB/num_closids'))
        for number in range(7):
            self.fs.mkdir(f'group{number}')

        with self.refused(errno.ENOSPC, 'Out of CLOSIDs\n'):
            self.fs.mkdir('one-too-many')

        self.assertNotIn('one-too-many', self.fs.listdir(''))
        self.fs.rmdir('group3')
        self.fs.mkdir('one-too-many')

    def test_the_words_of_failed_mkdirs_pile_up(self) -> None:
        for number in range(7):
            self.fs.mkdir(f'group{number}')

        for _ in range(2):
            with self.refused(errno.ENOSPC):
                self.fs.mkdir('more')

        self.assertEqual('Out of CLOSIDs\n' * 2, self.fs.read(STATUS))

    def test_a_group_has_the_files_of_a_control_group(self) -> None:
        self.fs.mkdir('web')

        self.assertEqual(
            [
                'cpus',
                'cpus_list',
                'mode',
                'mon_data',
                'mon_groups',
                'schemata',
                'size',
                'tasks',
            ],
            sorted(self.fs.listdir('web')),
        )
        self.assertEqual('shareable\n', self.fs.read('web/mode'))
        self.assertEqual('\n', self.fs.read('web/cpus_list'))
        self.assertEqual('', self.fs.read('web/tasks'))

    def test_a_group_cannot_be_made_twice(self) -> None:
        self.fs.mkdir('web')

        for name in ('web', 'info', 'mon_data', 'schemata'):
            with self.subTest(name), self.refused(errno.EEXIST):
                self.fs.mkdir(name)

    def test_later_ones_know_no_group_in_info(self) -> None:
        self.use('granite')

        with self.refused(errno.ENODEV):
            self.fs.mkdir('info/x')

    def test_names_are_as_long_as_one_likes(self) -> None:
        self.fs.mkdir('n' * 256)

        self.fs.rmdir('n' * 256)

    def test_groups_have_their_places(self) -> None:
        self.fs.mkdir('web')

        for path in ('web/cache', 'web/mon_groups/mon_groups', 'info/x'):
            with self.subTest(path), self.refused(errno.EPERM):
                self.fs.mkdir(path)
        with self.refused(errno.ENOENT):
            self.fs.mkdir('nobody/mon_groups/cache')
        with self.refused(errno.EINVAL):
            self.fs.mkdir('two\nlines')
        for path in ('info', 'mon_groups', 'web/mon_data'):
            with self.subTest(path), self.refused(errno.EPERM):
                self.fs.rmdir(path)
        with self.refused(errno.ENOENT):
            self.fs.rmdir('nobody')

    def test_a_removed_group_gives_its_cpus_and_tasks_to_the_default_one(
        self,
    ) -> None:
        self.fs.mkdir('web')
        tid = self.kernel.start_task()
        self.fs.write('web/cpus_list', '3-5\n')
        self.fs.write('web/tasks', f'{tid}\n')

        self.fs.rmdir('web')

        self.assertEqual('0-47\n', self.fs.read('cpus_list'))
        self.assertIn(str(tid), self.read_lines('tasks'))
        self.assertNotIn('web', self.fs.listdir(''))

    def test_a_group_is_refused_where_others_hold_all_ways(self) -> None:
        self.use('atom_l2')
        self.fs.mkdir('all')
        self.fs.write('schemata', 'L2:0=1\n')
        ways = ';'.join(f'{n}=fe' for n in range(8))
        self.fs.write('all/schemata', f'L2:{ways}\n')
        ways = ';'.join(f'{n}=1' for n in range(8))
        self.fs.write('schemata', f'L2:{ways}\n')
        self.fs.write('all/mode', 'exclusive\n')
        self.fs.write('mode', 'exclusive\n')

        with self.refused(errno.ENOSPC, 'No space on L2:0\n'):
            self.fs.mkdir('more')


class ModeCases(WithTree):
    def setUp(self) -> None:
        super().setUp()
        self.fs.mkdir('web')
        self.fs.write('web/schemata', 'L3:0=3;1=3\n')
        self.fs.write('schemata', 'L3:0=7fc;1=7fc\n')

    def test_exclusive_ways_are_refused_to_others(self) -> None:
        self.fs.write('web/mode', 'exclusive\n')

        with self.refused(words='Overlaps with exclusive group\n'):
            self.fs.write('schemata', 'L3:0=7fe\n')

        self.assertEqual('exclusive\n', self.fs.read('web/mode'))

    def test_an_exclusive_group_may_not_reach_for_others(self) -> None:
        self.fs.write('web/mode', 'exclusive\n')

        with self.refused(words='Overlaps with other group\n'):
            self.fs.write('web/schemata', 'L3:0=7\n')

    def test_a_group_that_shares_cannot_become_exclusive(self) -> None:
        self.fs.write('schemata', 'L3:1=7ff\n')

        with self.refused(words='Schemata overlaps\n'):
            self.fs.write('web/mode', 'exclusive\n')

        self.assertEqual('shareable\n', self.fs.read('web/mode'))

    def test_ways_that_hardware_uses_cannot_be_exclusive(self) -> None:
        self.fs.write('schemata', 'L3:0=3fc;1=1fc\n')
        self.fs.write('web/schemata', 'L3:0=400;1=3\n')

        with self.refused(words='Schemata overlaps\n'):
            self.fs.write('web/mode', 'exclusive\n')

    def test_the_usage_of_each_way_is_told(self) -> None:
        self.fs.write('schemata', 'L3:0=1f8;1=600\n')
        self.fs.write('web/mode', 'exclusive\n')

        self.assertEqual(
            '0=HHSSSSSS0EE;1=XX0000000EE\n',
            self.fs.read('info/L3/bit_usage'),
        )

    def test_a_new_group_gets_no_exclusive_way(self) -> None:
        self.fs.write('web/mode', 'exclusive\n')

        self.fs.mkdir('new')

        self.assertEqual(
            {'0': '7fc', '1': '7fc'}, self.read_values('new', 'L3')
        )

    def test_an_exclusive_group_can_be_shareable_again(self) -> None:
        self.fs.write('web/mode', 'exclusive\n')

        self.fs.write('web/mode', 'shareable\n')

        self.fs.write('schemata', 'L3:0=7ff\n')

    def test_other_modes_are_refused(self) -> None:
        for mode in ('pseudo-locked', 'greedy', ''):
            with (
                self.subTest(mode),
                self.refused(words='Unknown or unsupported mode\n'),
            ):
                self.fs.write('web/mode', f'{mode}\n')

    def use_broadwell(self) -> None:
        """Take a processor whose kernel driver can lock a region."""
        self.use('no_mba')
        self.fs.mkdir('web')
        self.fs.write('web/schemata', 'L3:0=3;1=3\n')
        self.fs.write('schemata', 'L3:0=7fffc;1=7fffc\n')

    def test_a_skylake_locks_nothing(self) -> None:
        with self.refused(words='Pseudo-locking not supported\n'):
            self.fs.write('web/mode', 'pseudo-locksetup\n')

    def test_a_region_is_pseudo_locked_and_its_class_given_back(
        self,
    ) -> None:
        self.use_broadwell()
        free = self.kernel.count_free_classes()
        self.fs.write('web/mode', 'pseudo-locksetup\n')
        setup = self.fs.read('web/schemata')

        self.fs.write('web/schemata', 'L3:0=3\n')

        self.assertEqual('L3:uninitialized\n', setup)
        self.assertEqual('pseudo-locked\n', self.fs.read('web/mode'))
        self.assertEqual('L3:0=3\n', self.fs.read('web/schemata'))
        self.assertIn(
            '0=HXSSSSSSSSSSSSSSSSPP;', self.fs.read('info/L3/bit_usage')
        )
        self.assertEqual(free + 1, self.kernel.count_free_classes())
        with self.refused(words='CBM overlaps with pseudo-locked region\n'):
            self.fs.write('schemata', 'L3:0=7ffff\n')
        self.fs.rmdir('web')
        self.fs.write('schemata', 'L3:0=7ffff\n')

    def test_a_group_in_use_cannot_be_locked(self) -> None:
        self.use_broadwell()
        self.fs.write('web/cpus_list', '1\n')

        with self.refused(words='CPUs assigned to resource group\n'):
            self.fs.write('web/mode', 'pseudo-locksetup\n')
        with self.refused(words='Cannot pseudo-lock default group\n'):
            self.fs.write('mode', 'pseudo-locksetup\n')

    def test_a_group_that_is_to_be_locked_shows_not_what_runs_in_it(
        self,
    ) -> None:
        self.use_broadwell()
        self.fs.write('web/mode', 'pseudo-locksetup\n')

        with self.refused(errno.EACCES):
            self.fs.write('web/tasks', '1\n')
        for name in ('cpus', 'cpus_list', 'tasks'):
            with self.subTest(name), self.refused(errno.EACCES):
                self.fs.read(f'web/{name}')

    def test_a_locked_region_shows_the_cpus_of_its_cache(self) -> None:
        self.use_broadwell()
        self.fs.write('web/mode', 'pseudo-locksetup\n')

        self.fs.write('web/schemata', 'L3:1=3\n')

        self.assertEqual('10-19,30-39\n', self.fs.read('web/cpus_list'))
        self.assertEqual('ff,c00ffc00\n', self.fs.read('web/cpus'))
        for name in ('cpus', 'cpus_list', 'tasks'):
            with self.subTest(name), self.refused(errno.EACCES):
                self.fs.write(f'web/{name}', '1\n')
        with self.refused(errno.EACCES):
            self.fs.read('web/tasks')
        self.kernel.set_offline('10')
        self.assertEqual('11-19,30-39\n', self.fs.read('web/cpus_list'))
        self.kernel.set_offline('11-19,30-39')
        with self.refused(errno.ENODEV, words='Cache domain offline\n'):
            self.fs.read('web/cpus_list')

    def test_nothing_is_monitored_in_a_locked_region(self) -> None:
        self.use_broadwell()
        self.fs.write('web/mode', 'pseudo-locksetup\n')

        with self.refused(words='Pseudo-locking in progress\n'):
            self.fs.mkdir('web/mon_groups/m')

    def test_the_class_of_a_locked_region_is_that_of_another_group(
        self,
    ) -> None:
        self.use_broadwell()
        self.fs.write('web/mode', 'pseudo-locksetup\n')
        self.fs.write('web/schemata', 'L3:0=3\n')
        self.kernel.add_group('new', 'L3:0=c;1=c\n')

        groups = self.kernel.list_groups()

        self.assertEqual(groups['new']['closid'], groups['web']['closid'])
        self.assertEqual({'L3': {'0': 3, '1': 0}}, groups['web']['values'])
        self.assertEqual({'L3': {'0': 12, '1': 12}}, groups['new']['values'])


class CpuCases(WithTree):
    def setUp(self) -> None:
        super().setUp()
        self.fs.mkdir('web')
        self.fs.mkdir('db')

    def test_cpus_move_between_groups(self) -> None:
        self.fs.write('web/cpus_list', '0-3,24\n')
        self.fs.write('db/cpus_list', '2,3,40\n')

        self.assertEqual('0-1,24\n', self.fs.read('web/cpus_list'))
        self.assertEqual('2-3,40\n', self.fs.read('db/cpus_list'))
        self.assertEqual('4-23,25-39,41-47\n', self.fs.read('cpus_list'))

    def test_dropped_cpus_fall_to_the_default_group(self) -> None:
        self.fs.write('web/cpus_list', '0-3\n')

        self.fs.write('web/cpus_list', '0\n')

        self.assertEqual('1-47\n', self.fs.read('cpus_list'))
        self.fs.write('web/cpus_list', '\n')
        self.assertEqual('0-47\n', self.fs.read('cpus_list'))

    def test_the_default_group_takes_but_does_not_drop(self) -> None:
        self.fs.write('web/cpus_list', '0-3\n')

        with self.refused(words="Can't drop CPUs from default group\n"):
            self.fs.write('cpus_list', '8-47\n')

        self.fs.write('cpus_list', '0-47\n')
        self.assertEqual('\n', self.fs.read('web/cpus_list'))

    def test_masks_are_words_of_thirty_two_bits(self) -> None:
        self.fs.write('web/cpus', '8000,00000003\n')

        self.assertEqual('0-1,47\n', self.fs.read('web/cpus_list'))
        self.assertEqual('8000,00000003\n', self.fs.read('web/cpus'))
        self.assertEqual('7fff,fffffffc\n', self.fs.read('cpus'))

    def test_what_is_no_list_is_refused(self) -> None:
        cases = {
            ('cpus_list', '3-1\n'): errno.EINVAL,
            ('cpus_list', 'all of them\n'): errno.EINVAL,
            ('cpus_list', '48\n'): errno.ERANGE,
            ('cpus', 'xyz\n'): errno.EINVAL,
            ('cpus', '10000,00000000\n'): errno.EOVERFLOW,
        }
        for (name, text), number in cases.items():
            with self.subTest(text), self.refused(number):
                self.fs.write(f'web/{name}', text)
        self.assertEqual(
            'Bad CPU list/mask\n' * len(cases), self.fs.read(STATUS)
        )

    def test_lists_have_words_of_their_own(self) -> None:
        for text, expected in (
            ('all\n', '0-47'),
            ('N\n', '47'),
            ('46-N\n', '46-47'),
            ('all:1/24\n', '0,24'),
            # What follows the first line is not read.
            ('1\n2\n', '1'),
        ):
            with self.subTest(text):
                self.fs.write('web/cpus_list', text)

                self.assertEqual(
                    f'{expected}\n', self.fs.read('web/cpus_list')
                )

    def test_words_of_a_mask_that_are_not_there_are_passed_over(self) -> None:
        for text in ('02,\n', ',02\n', '0,,2\n', '2\n4\n'):
            with self.subTest(text):
                self.fs.write('web/cpus', text)

                self.assertEqual('1\n', self.fs.read('web/cpus_list'))

    def test_cpus_that_are_offline_are_refused(self) -> None:
        self.kernel.set_offline('5')

        with self.refused(words='Can only assign online CPUs\n'):
            self.fs.write('web/cpus_list', '4-6\n')

    def test_a_cpu_that_goes_offline_leaves_its_group_for_good(self) -> None:
        self.fs.write('web/cpus_list', '4-6\n')

        self.kernel.set_offline('5')
        offline = self.fs.read('web/cpus_list')
        self.kernel.set_online('5')

        self.assertEqual('4,6\n', offline)
        self.assertEqual('4,6\n', self.fs.read('web/cpus_list'))
        self.assertEqual('0-3,5,7-47\n', self.fs.read('cpus_list'))

    def test_a_cache_without_a_cpu_is_gone_and_comes_back_whole(
        self,
    ) -> None:
        self.fs.write('web/schemata', 'L3:0=3;1=3\n')

        self.kernel.set_offline('12-23,36-47')
        gone = self.fs.read('web/schemata')
        watched = self.fs.listdir('web/mon_data')
        self.kernel.set_online('12-23,36-47')

        self.assertEqual('    MB:0=100\n    L3:0=003\n', gone)
        self.assertEqual(['mon_L3_00'], watched)
        self.assertEqual(
            {'0': '003', '1': '7ff'}, self.read_values('web', 'L3')
        )

    def test_the_topology_follows(self) -> None:
        self.kernel.set_offline('1')

        with open(f'{self.machine.cpu_path}/online') as stream:
            self.assertEqual('0,2-47\n', stream.read())
        path = f'{self.machine.cpu_path}/cpu0/cache/index0/shared_cpu_list'
        with open(path) as stream:
            self.assertEqual('0,2-11,24-35\n', stream.read())


class TaskCases(WithTree):
    def setUp(self) -> None:
        super().setUp()
        self.fs.mkdir('web')
        self.fs.mkdir('db')
        self.tid = self.kernel.start_task()

    def test_a_task_is_in_one_group(self) -> None:
        self.fs.write('web/tasks', f'{self.tid}\n')
        self.fs.write('db/tasks', f'{self.tid}\n')

        self.assertEqual([], self.read_lines('web/tasks'))
        self.assertEqual([str(self.tid)], self.read_lines('db/tasks'))
        self.assertEqual(['1'], self.read_lines('tasks'))

    def test_a_task_that_is_not_there_is_refused(self) -> None:
        self.kernel.exit_task(self.tid)

        with self.refused(errno.ESRCH, f'No task {self.tid}\n'):
            self.fs.write('web/tasks', f'{self.tid}\n')

    def test_a_task_that_died_is_listed_no_more(self) -> None:
        self.fs.write('web/tasks', f'{self.tid}\n')

        self.kernel.exit_task(self.tid)

        self.assertEqual('', self.fs.read('web/tasks'))

    def test_a_number_that_is_used_again_is_another_task(self) -> None:
        self.fs.write('web/tasks', f'{self.tid}\n')
        self.kernel.exit_task(self.tid)

        self.kernel.start_task(self.tid)

        self.assertEqual('', self.fs.read('web/tasks'))

    def test_a_thread_starts_in_the_group_of_the_one_that_made_it(
        self,
    ) -> None:
        self.fs.write('web/tasks', f'{self.tid}\n')
        thread = self.kernel.clone_task(self.tid)
        self.fs.write('db/tasks', f'{self.tid}\n')
        late = self.kernel.clone_task(self.tid)

        self.assertEqual([str(thread)], self.read_lines('web/tasks'))
        self.assertEqual(
            [str(self.tid), str(late)], self.read_lines('db/tasks')
        )

    def test_a_process_ends_with_its_threads(self) -> None:
        thread = self.kernel.clone_task(self.tid)
        for tid in (self.tid, thread):
            self.fs.write('web/tasks', f'{tid}\n')

        self.kernel.exit_task(self.tid)

        self.assertEqual('', self.fs.read('web/tasks'))

    def test_old_kernels_take_one_task_at_a_time(self) -> None:
        other = self.kernel.start_task()

        with self.refused():
            self.fs.write('web/tasks', f'{self.tid},{other}\n')

        self.assertEqual('', self.fs.read('web/tasks'))

    def test_a_number_that_is_too_large_is_none(self) -> None:
        for text in ('2147483648\n', '99999999999\n'):
            with self.subTest(text), self.refused():
                self.fs.write('web/tasks', text)

    def test_old_kernels_say_nothing_of_what_is_no_number(self) -> None:
        with self.refused(errno.ESRCH, 'No task 4194999\n'):
            self.fs.write('web/tasks', '4194999\n')

        with self.refused(words='No task 4194999\n'):
            self.fs.write('web/tasks', '1x\n')

    def test_later_ones_take_a_list_until_one_is_wrong(self) -> None:
        self.use('epyc16')
        self.fs.mkdir('web')
        one, other = self.kernel.start_task(), self.kernel.start_task()
        self.fs.write('web/tasks', f'{one}, {other}\n')
        self.assertEqual([str(one), str(other)], self.read_lines('web/tasks'))

        with self.refused(
            errno.ESRCH, 'No task 77\nError while processing task 77\n'
        ):
            self.fs.write('tasks', f'{one},77,{other}\n')

        self.assertEqual([str(other)], self.read_lines('web/tasks'))

    def test_what_is_no_number_is_refused(self) -> None:
        self.use('epyc16')

        for text, words in {
            'abc\n': 'Task list parsing error pid abc\n',
            '-1\n': 'Invalid pid -1\n',
            '1\n2\n': 'Task list parsing error pid 1\n2\n',
        }.items():
            with self.subTest(text), self.refused(words=words):
                self.fs.write('tasks', text)


class MonitorCases(WithTree):
    def setUp(self) -> None:
        super().setUp()
        self.fs.mkdir('web')

    def test_there_is_a_folder_for_each_cache(self) -> None:
        self.assertEqual(
            ['mon_L3_00', 'mon_L3_01'],
            sorted(self.fs.listdir('web/mon_data')),
        )
        self.assertEqual(
            ['llc_occupancy', 'mbm_local_bytes', 'mbm_total_bytes'],
            sorted(self.fs.listdir('web/mon_data/mon_L3_01')),
        )

    def test_counters_count(self) -> None:
        self.kernel.set_occupancy('web', 1, 5 << 20)
        self.kernel.add_traffic('web', 1, total=3 << 20, local=1 << 20)
        self.kernel.add_traffic('web', 1, total=1 << 20)

        folder = 'web/mon_data/mon_L3_01'
        self.assertEqual('5242880\n', self.fs.read(f'{folder}/llc_occupancy'))
        self.assertEqual(
            '4194304\n', self.fs.read(f'{folder}/mbm_total_bytes')
        )
        self.assertEqual(
            '1048576\n', self.fs.read(f'{folder}/mbm_local_bytes')
        )
        self.assertEqual(
            '0\n', self.fs.read('web/mon_data/mon_L3_00/llc_occupancy')
        )

    def test_a_control_group_counts_its_monitoring_groups(self) -> None:
        self.fs.mkdir('web/mon_groups/cache')
        self.kernel.set_occupancy('web', 0, 1 << 20)
        self.kernel.set_occupancy('web/mon_groups/cache', 0, 2 << 20)

        file = 'mon_data/mon_L3_00/llc_occupancy'
        self.assertEqual('3145728\n', self.fs.read(f'web/{file}'))
        self.assertEqual(
            '2097152\n', self.fs.read(f'web/mon_groups/cache/{file}')
        )

    def test_hardware_may_have_no_answer(self) -> None:
        file = 'web/mon_data/mon_L3_00/mbm_total_bytes'
        for text in ('Unavailable', 'Error'):
            self.kernel.set_reading('web', 0, 'mbm_total_bytes', text)
            self.assertEqual(f'{text}\n', self.fs.read(file))

        self.kernel.set_reading('web', 0, 'mbm_total_bytes', None)

        self.assertEqual('0\n', self.fs.read(file))

    def test_a_group_made_anew_has_another_inode(self) -> None:
        paths = ('web', 'web/mon_groups/cache')
        self.fs.mkdir(paths[1])
        before = [self.fs.get_inode(path) for path in paths]
        again = [self.fs.get_inode(path) for path in paths]
        self.kernel.remove_group('web')
        self.fs.mkdir('web')
        self.fs.mkdir(paths[1])

        after = [self.fs.get_inode(path) for path in paths]

        self.assertEqual(before, again)
        self.assertEqual(4, len({*before, *after}))
        with self.refused(errno.ENOENT):
            self.fs.get_inode('nobody')

    def test_a_monitoring_group_watches_tasks_of_its_parent(self) -> None:
        self.fs.mkdir('web/mon_groups/cache')
        tid = self.kernel.start_task()
        with self.refused(
            words="Can't move task to different control group\n"
        ):
            self.fs.write('web/mon_groups/cache/tasks', f'{tid}\n')
        self.fs.write('web/tasks', f'{tid}\n')

        self.fs.write('web/mon_groups/cache/tasks', f'{tid}\n')

        for group in ('web', 'web/mon_groups/cache'):
            self.assertEqual([str(tid)], self.read_lines(f'{group}/tasks'))
        self.fs.rmdir('web/mon_groups/cache')
        self.assertEqual([str(tid)], self.read_lines('web/tasks'))

    def test_a_monitoring_group_watches_cpus_of_its_parent(self) -> None:
        self.fs.mkdir('web/mon_groups/cache')
        self.fs.write('web/cpus_list', '1-4\n')
        with self.refused(
            words='Can only add CPUs to mongroup that belong to parent\n'
        ):
            self.fs.write('web/mon_groups/cache/cpus_list', '4-5\n')

        self.fs.write('web/mon_groups/cache/cpus_list', '3-4\n')

        self.assertEqual('1-4\n', self.fs.read('web/cpus_list'))
        self.fs.write('web/cpus_list', '1-3\n')
        self.assertEqual('\n', self.fs.read('web/mon_groups/cache/cpus_list'))

    def test_ids_run_out_and_are_dirty_for_a_while(self) -> None:
        self.use('no_mba')
        for number in range(55):
            self.fs.mkdir(f'mon_groups/m{number}')
        with self.refused(errno.ENOSPC, 'Out of RMIDs\n'):
            self.fs.mkdir('mon_groups/more')
        self.kernel.set_occupancy('mon_groups/m7', 1, 4 << 20)
        self.fs.rmdir('mon_groups/m7')

        with self.refused(errno.EBUSY):
            self.fs.mkdir('mon_groups/more')
        self.kernel.look_at_limbo()
        self.assertEqual({'free': 0, 'limbo': 1}, self.kernel.count_ids())
        self.kernel.flush_caches()

        self.fs.mkdir('mon_groups/more')

    def test_no_class_is_lost_where_no_id_is_left(self) -> None:
        self.use('no_mba')
        for number in range(55):
            self.fs.mkdir(f'mon_groups/m{number}')
        free = self.kernel.count_free_classes()

        with self.refused(errno.ENOSPC, 'Out of RMIDs\n'):
            self.fs.mkdir('web')

        self.assertEqual(free, self.kernel.count_free_classes())
        self.assertNotIn('web', self.fs.listdir(''))

    def test_no_id_is_lost_where_no_way_is_left(self) -> None:
        self.use('granite')
        self.fs.mkdir('all')
        for group, mask in (('', '1'), ('all', 'fffe'), ('', '1')):
            path = f'{group}/schemata'.lstrip('/')
            for resource, count in (('L3', 2), ('L2', 32)):
                ways = ';'.join(f'{n}={mask}' for n in range(count))
                self.fs.write(path, f'{resource}:{ways}\n')
        self.fs.write('mode', 'exclusive\n')
        self.fs.write('all/mode', 'exclusive\n')
        ids = sum(self.kernel.count_ids().values())

        with self.refused(errno.ENOSPC, 'No space on L2:0\n'):
            self.fs.mkdir('web')

        self.assertEqual(ids, sum(self.kernel.count_ids().values()))

    def test_clusters_are_summed_up_and_told_apart(self) -> None:
        self.use('icelake_snc')
        self.kernel.set_occupancy('', 2, 1 << 20)
        self.kernel.set_occupancy('', 3, 2 << 20)

        folder = 'mon_data/mon_L3_01'
        self.assertEqual(
            [
                'llc_occupancy',
                'mbm_local_bytes',
                'mbm_total_bytes',
                'mon_sub_L3_02',
                'mon_sub_L3_03',
            ],
            sorted(self.fs.listdir(folder)),
        )
        self.assertEqual('3145728\n', self.fs.read(f'{folder}/llc_occupancy'))
        self.assertEqual(
            '2097152\n',
            self.fs.read(f'{folder}/mon_sub_L3_03/llc_occupancy'),
        )
        self.assertIn('L3:0=fff;1=fff\n', self.fs.read('schemata'))

    def test_where_nothing_is_monitored_there_are_no_such_folders(
        self,
    ) -> None:
        self.use('atom_l2')
        self.fs.mkdir('web')

        self.assertEqual(
            ['cpus', 'cpus_list', 'mode', 'schemata', 'size', 'tasks'],
            sorted(self.fs.listdir('web')),
        )
        self.assertEqual(
            ['L2', 'last_cmd_status'], sorted(self.fs.listdir('info'))
        )

    def test_the_threshold_can_be_set(self) -> None:
        path = 'info/L3_MON/max_threshold_occupancy'

        self.fs.write(path, '200000\n')

        self.assertEqual('196608\n', self.fs.read(path))
        for text, number in (
            ('4294967295\n', errno.EINVAL),
            ('99999999999\n', errno.ERANGE),
        ):
            with self.subTest(text), self.refused(number):
                self.fs.write(path, text)


class FileCases(WithTree):
    def test_info_tells_what_the_machine_can_do(self) -> None:
        told = {
            'info/L3/cbm_mask': '7ff\n',
            'info/L3/min_cbm_bits': '1\n',
            'info/L3/shareable_bits': '600\n',
            'info/MB/min_bandwidth': '10\n',
            'info/MB/bandwidth_gran': '10\n',
            'info/MB/delay_linear': '1\n',
            'info/MB/thread_throttle_mode': 'max\n',
            'info/L3_MON/num_rmids': '192\n',
            'info/L3_MON/mon_features': 'llc_occupancy\n'
            'mbm_total_bytes\nmbm_local_bytes\n',
            'info/last_cmd_status': 'ok\n',
        }

        self.assertEqual(told, {path: self.fs.read(path) for path in told})
        # The kernel of this machine is older than that file.
        self.assertNotIn('sparse_masks', self.fs.listdir('info/L3'))

    def test_files_that_are_read_only_are_so_for_root(self) -> None:
        for path in ('info/L3/cbm_mask', 'size', STATUS):
            with self.subTest(path), self.refused(errno.EACCES):
                self.fs.write(path, '1\n')

    def test_what_is_not_there_is_not_there(self) -> None:
        for path in ('nobody/tasks', 'info/L2/cbm_mask', 'mon_data/x'):
            with self.subTest(path), self.refused(errno.ENOENT):
                self.fs.read(path)
        with self.refused(errno.ENOTDIR):
            self.fs.listdir('tasks')

    def test_a_write_is_a_page_at_most(self) -> None:
        with self.refused(errno.E2BIG):
            self.fs.write('tasks', '1,' * 3000 + '\n')

    def test_the_lock_keeps_a_writer_from_readers(self) -> None:
        order = []

        def read() -> None:
            with self.fs.lock(exclusive=False):
                order.append('reader')

        with self.fs.lock(exclusive=True):
            reader = threading.Thread(target=read)
            reader.start()
            reader.join(0.05)
            order.append('writer')
        reader.join(60)

        self.assertEqual(['writer', 'reader'], order)

    def test_the_lock_keeps_readers_from_a_writer(self) -> None:
        order = []

        def write() -> None:
            with self.fs.lock(exclusive=True):
                order.append('writer')

        with self.fs.lock(exclusive=False):
            writer = threading.Thread(target=write)
            writer.start()
            writer.join(0.05)
            order.append('reader')
        writer.join(60)

        self.assertEqual(['reader', 'writer'], order)

    def test_readers_hold_the_lock_together(self) -> None:
        with self.fs.lock(exclusive=False), self.fs.lock(exclusive=False):
            self.assertEqual('ok\n', self.fs.read(STATUS))


class InterferenceCases(WithTree):
    def setUp(self) -> None:
        super().setUp()
        self.fs.mkdir('web')

    def test_a_remount_removes_all_groups(self) -> None:
        self.fs.write('web/schemata', 'L3:0=3\n')

        self.kernel.remount(['cdp'])

        self.assertNotIn('web', self.fs.listdir(''))
        self.assertIn('L3CODE:0=7ff', self.fs.read('schemata'))

    def test_what_the_machine_cannot_do_is_not_mounted(self) -> None:
        self.use('epyc16')

        with self.refused():
            self.kernel.remount(['mba_MBps'])

        self.assertIn('MB:0=2048;', self.fs.read('schemata'))

    def test_what_is_not_mounted_is_an_empty_folder(self) -> None:
        self.kernel.unmount()

        self.assertEqual([], self.fs.listdir(''))
        with self.refused(errno.ENOENT):
            self.fs.read('schemata')
        self.kernel.remount()
        self.assertNotIn('web', self.fs.listdir(''))

    def test_a_fault_hits_what_it_is_for_and_no_more(self) -> None:
        self.kernel.fail(operation='write', path='*/schemata', skip=1)
        self.fs.write('web/schemata', 'L3:0=3\n')

        with self.refused(errno.EIO):
            self.fs.write('web/schemata', 'L3:0=7\n')

        self.assertEqual('003', self.read_values('web', 'L3')['0'])
        self.fs.write('web/schemata', 'L3:0=7\n')

    def test_a_write_may_be_done_by_half(self) -> None:
        self.kernel.fail(operation='write', path='web/schemata', half=True)

        with self.refused(errno.EIO):
            self.fs.write('web/schemata', 'L3:0=3;1=3\nMB:0=20;1=20\n')

        self.assertEqual(
            {'0': '003', '1': '003'}, self.read_values('web', 'L3')
        )
        self.assertEqual('100', self.read_values('web', 'MB')['0'])

    def test_a_group_may_go_just_before_it_is_written_to(self) -> None:
        self.kernel.fail(
            operation='write',
            path='web/tasks',
            do=['remove_group', 'web'],
            error=None,
        )

        with self.refused(errno.ENOENT):
            self.fs.write('web/tasks', '1\n')

    def test_faults_stop(self) -> None:
        self.kernel.fail(error='EBUSY', count=None)
        for _ in range(3):
            with self.refused(errno.EBUSY):
                self.fs.mkdir('db')

        self.kernel.stop_failing()

        self.fs.mkdir('db')

    def test_others_have_groups_too(self) -> None:
        tid = self.kernel.start_task()

        self.kernel.add_group(
            'theirs', 'L3:0=f\n', cpus='7', mode='shareable', tasks=[tid]
        )

        self.assertEqual('00f', self.read_values('theirs', 'L3')['0'])
        self.assertEqual('7\n', self.fs.read('theirs/cpus_list'))
        self.assertEqual([str(tid)], self.read_lines('theirs/tasks'))
        self.assertEqual(
            {'0': 15, '1': 2047}, self.kernel.get_values('theirs')
        )

    def test_others_write_without_being_counted(self) -> None:
        self.kernel.forget_operations()

        self.kernel.write('web/schemata', 'L3:0=3\n')
        text = self.fs.read('web/schemata')

        self.assertIn('L3:0=003', text)
        self.assertEqual(
            [['read', 'web/schemata']], self.kernel.list_operations()
        )

    def test_what_cannot_be_done_is_refused(self) -> None:
        with self.refused(errno.ENOENT):
            self.kernel.remove_group('nobody')
