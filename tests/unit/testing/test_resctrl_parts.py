# SPDX-License-Identifier: Apache-2.0

"""The parts of the model that need no tree: pure, or one file."""

import errno
import io
import json
import os
import stat
import threading

from nova_ext_resources.testing import resctrl
from nova_ext_resources.testing.resctrl import cli
from nova_ext_resources.testing.resctrl import controls
from nova_ext_resources.testing.resctrl import faults
from nova_ext_resources.testing.resctrl import fuse
from nova_ext_resources.testing.resctrl import interference
from nova_ext_resources.testing.resctrl import monitoring
from nova_ext_resources.testing.resctrl import numbers
from nova_ext_resources.testing.resctrl import remote
from nova_ext_resources.testing.resctrl import tasks
from nova_ext_resources.testing.resctrl import tree
from tests import base


class ModeTest(base.TestCase):
    def test_what_is_locked_can_have_no_monitoring_groups(self) -> None:
        kernel = resctrl.Kernel(resctrl.SHAPES['no_mba'])
        kernel.mkdir('web')
        self.assertEqual(
            stat.S_IFDIR | 0o755, kernel.get_mode('web/mon_groups')
        )

        kernel.write('web/mode', b'pseudo-locksetup\n')

        self.assertEqual(stat.S_IFDIR, kernel.get_mode('web/mon_groups'))
        self.assertEqual(stat.S_IFDIR | 0o755, kernel.get_mode('web'))


class NumbersTest(base.TestCase):
    def test_masks_are_as_wide_as_there_are_cpus(self) -> None:
        cases = {
            (1,): '1',
            (4,): 'f',
            (12,): 'fff',
            (32,): 'ffffffff',
            (33,): '1,ffffffff',
            (100,): 'f,ffffffff,ffffffff,ffffffff',
        }
        for (count,), text in cases.items():
            with self.subTest(count):
                self.assertEqual(
                    text, numbers.format_cpu_mask(range(count), count)
                )
                self.assertEqual(
                    set(range(count)), numbers.parse_cpu_mask(text, count)
                )

    def test_leading_zeros_stay(self) -> None:
        self.assertEqual('00,00000002', numbers.format_cpu_mask({1}, 40))

    def test_a_mask_has_no_more_words_than_the_host(self) -> None:
        """Not even if they are 0."""
        for text, count in (('0,1', 8), ('00000000,1', 32), ('x,0,1', 40)):
            with self.subTest(text):
                err = self.assertRaises(
                    OSError, numbers.parse_cpu_mask, text, count
                )
                self.assertEqual(errno.EOVERFLOW, err.errno)
        self.assertEqual({0}, numbers.parse_cpu_mask('0,1', 40))

    def test_lists_may_have_steps(self) -> None:
        self.assertEqual(
            {0, 1, 4, 5, 9}, numbers.parse_cpu_list('0-7:2/4,9\n', 16)
        )

    def test_lists_are_written_as_runs(self) -> None:
        self.assertEqual('0-2,5', numbers.format_cpu_list({5, 2, 1, 0}))
        self.assertEqual('', numbers.format_cpu_list(()))

    def test_prefixes_tell_the_base(self) -> None:
        texts = ('16', '0x10', '020', '+16', '-16', '0')

        self.assertEqual(
            [16, 16, 16, 16, -16, 0], [numbers.parse_integer(t) for t in texts]
        )

    def test_blanks_are_no_part_of_a_number(self) -> None:
        for parse in (
            numbers.parse_decimal,
            numbers.parse_hex,
            numbers.parse_integer,
        ):
            for text in ('', ' 1', '1 ', '1_0', '٣'):
                with self.subTest((parse.__name__, text)):
                    self.assertRaises(ValueError, parse, text)


class FirstRunTest(base.TestCase):
    def test_it_is_the_lowest_ones(self) -> None:
        cases = {0: 0, 0b1: 0b1, 0b110: 0b110, 0b11011: 0b11, 0b1010: 0b10}

        found = {mask: controls.first_run(mask) for mask in cases}

        self.assertEqual(cases, found)


class HalveTest(base.TestCase):
    def test_the_first_half_stays(self) -> None:
        text = 'L3:0=1;1=2\nMB:0=10;1=20\n'

        self.assertEqual('L3:0=1\nL3:1=2\n', faults.halve(text))

    def test_one_stays_at_least(self) -> None:
        self.assertEqual('L3:0=1\n', faults.halve('L3:0=1\n'))


class FaultTest(base.TestCase):
    def test_an_error_must_be_one(self) -> None:
        self.assertRaises(ValueError, faults.Fault, error='EWRONG')


class MonitorTest(base.TestCase):
    def make_monitor(self) -> monitoring.Monitor:
        self.now = 0.0
        shape = resctrl.SHAPES['no_mba']
        assert shape.monitoring is not None
        monitor = monitoring.Monitor(
            shape.monitoring, 25 << 20, lambda: self.now
        )
        monitor.follow(range(shape.num_cpus))
        return monitor

    def test_the_kernel_looks_at_limbo_once_a_second(self) -> None:
        monitor = self.make_monitor()
        for _ in range(55):
            last = monitor.allocate()
        monitor.free(last)

        error = self.assertRaises(controls.Refused, monitor.allocate)
        self.now = 1.0

        self.assertEqual(errno.EBUSY, error.errno)
        self.assertEqual(last, monitor.allocate())

    def test_the_id_that_rested_longest_is_next(self) -> None:
        monitor = self.make_monitor()
        first = monitor.allocate()
        monitor.free(first)
        monitor.look(force=True)

        self.assertEqual(first + 1, monitor.allocate())

    def test_traffic_of_the_last_owner_is_not_told(self) -> None:
        monitor = self.make_monitor()
        for _ in range(55):
            rmid = monitor.allocate()
        monitor.add(rmid, 0, 'mbm_total_bytes', 1 << 20)
        monitor.free(rmid)
        monitor.look(force=True)

        self.assertEqual(rmid, monitor.allocate())

        self.assertEqual('0\n', monitor.show([rmid], [0], 'mbm_total_bytes'))


class ProcTasksTest(base.TestCase):
    """On a made-up /proc."""

    def setUp(self) -> None:
        super().setUp()
        self.proc = self.make_folder()
        self.add(10, 10)
        self.add(10, 11)
        self.tasks = tasks.ProcTasks(self.proc)

    def add(self, pid: int, tid: int, born: int = 5) -> None:
        for folder in (f'{pid}/task/{tid}', f'{tid}'):
            os.makedirs(f'{self.proc}/{folder}', exist_ok=True)
        with open(f'{self.proc}/{tid}/stat', 'w') as stream:
            fields = ['S', *(['0'] * 18), str(born), '0']
            stream.write(f'{tid} (a ) name) {" ".join(fields)}\n')
        with open(f'{self.proc}/{tid}/status', 'w') as stream:
            stream.write(f'Name:\ta\nTgid:\t{pid}\nPid:\t{tid}\n')

    def test_a_thread_that_is_new_comes_from_the_first(self) -> None:
        self.tasks.watch(10)
        self.assertEqual([], self.tasks.list_changes([10]))

        self.add(10, 12)

        self.assertEqual([(12, 10)], self.tasks.list_changes([10]))
        self.assertEqual([], self.tasks.list_changes([10, 12]))

    def test_a_number_that_is_used_again_is_another_task(self) -> None:
        self.tasks.watch(10)

        self.add(10, 10, born=6)

        self.assertEqual([(10, None)], self.tasks.list_changes([10]))

    def test_all_threads_are_listed(self) -> None:
        os.rmdir(self._remove(11))

        self.assertEqual([10, 11], list(self.tasks.list_all()))

    def _remove(self, tid: int) -> str:
        """Leave only the entry of its process, as readdir does."""
        for name in ('stat', 'status'):
            os.unlink(f'{self.proc}/{tid}/{name}')
        return f'{self.proc}/{tid}'


class LockTest(base.TestCase):
    def test_a_lock_that_does_not_come_is_a_deadlock(self) -> None:
        lock = tree.Lock(patience=0.01)

        with lock.hold(exclusive=True):
            error = self.assertRaises(OSError, self._take, lock)

        self.assertEqual(errno.EDEADLK, error.errno)

    def _take(self, lock: tree.Lock) -> None:
        with lock.hold(exclusive=False):
            pass

    def test_many_threads_leave_a_tree_whole(self) -> None:
        machine = self.useFixture(resctrl.ResctrlFixture('epyc16'))

        def work(number: int) -> None:
            for _ in range(30):
                machine.file_system.mkdir(f'g{number}')
                machine.file_system.write(
                    f'g{number}/schemata', f'L3:{number}=3\n'
                )
                machine.file_system.rmdir(f'g{number}')

        threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)

        self.assertEqual([''], list(machine.kernel.list_groups()))
        self.assertEqual(15, machine.kernel.count_free_classes())


class RemoteTest(base.TestCase):
    """Without another process: the far end answers at once."""

    def setUp(self) -> None:
        super().setUp()
        kernel = resctrl.Kernel(resctrl.SHAPES['skylake2'])
        self.far = interference.Interference(kernel)

    def ask(self, **asked: object) -> dict[str, object]:
        answered: dict[str, object] = json.loads(
            remote.answer(self.far, json.dumps(asked))
        )
        return answered

    def test_a_call_is_answered(self) -> None:
        self.assertEqual({'result': 7}, self.ask(do='count_free_classes'))
        self.assertEqual(
            {'result': None}, self.ask(do='add_group', arguments=['web'])
        )

    def test_an_errno_comes_across(self) -> None:
        answered = self.ask(do='remove_group', named={'group': 'web'})

        self.assertEqual(errno.ENOENT, answered['errno'])

    def test_what_cannot_be_done_is_said(self) -> None:
        for name in ('call', '_find', 'nothing'):
            with self.subTest(name):
                self.assertEqual(
                    {'error': f'ValueError: {name} cannot be done'},
                    self.ask(do=name),
                )

    def test_nonsense_is_answered(self) -> None:
        self.assertIn('error', json.loads(remote.answer(self.far, 'nonsense')))
        self.assertIn('error', json.loads(remote.answer(self.far, '[]')))

    def test_a_process_that_is_gone_is_told(self) -> None:
        near = remote.RemoteInterference(io.StringIO(), io.StringIO())

        error = self.assertRaises(remote.RemoteError, near.unmount)

        self.assertEqual('the process that has the model is gone', str(error))
        self.assertFalse(hasattr(near, 'nothing'))


class FuseTest(base.TestCase):
    def test_without_a_device_the_error_says_what_to_do(self) -> None:
        error = self.assertRaises(
            fuse.Unavailable, fuse.load, f'{self.make_folder()}/fuse'
        )

        self.assertIn('modprobe fuse', str(error))

    def test_without_the_module_the_error_says_what_to_do(self) -> None:
        error = self.assertRaises(
            fuse.Unavailable, fuse.load, '/dev/null', 'no_such_module'
        )

        self.assertIn('pip install "nova-ext-resources[testing]"', str(error))


class CommandLineTest(base.TestCase):
    def parse(self, *arguments: str) -> resctrl.Shape:
        options = cli.make_parser().parse_args(
            [*arguments, '--mount', self.make_folder()]
        )
        return cli.make_shape(options)

    def test_a_shape_has_a_name(self) -> None:
        self.assertEqual(
            resctrl.SHAPES['epyc16'], self.parse('--shape', 'epyc16')
        )

    def test_a_shape_may_be_mounted_with_options(self) -> None:
        shape = self.parse('--shape', 'skylake2', '--options', 'cdp,debug')

        self.assertEqual({'cdp', 'debug'}, shape.options)

    def test_a_shape_may_be_a_file(self) -> None:
        for name, shape in resctrl.SHAPES.items():
            with self.subTest(name):
                path = os.path.join(self.make_folder(), 'shape.json')
                with open(path, 'w') as stream:
                    json.dump(shape.to_dict(), stream)

                self.assertEqual(
                    shape.to_dict(), self.parse('--shape', path).to_dict()
                )

    def test_a_place_that_is_no_folder_is_refused(self) -> None:
        self.assertRaises(
            SystemExit, cli.main, ['--mount', '/dev/null', '--tasks', 'proc']
        )

    def test_options_that_the_machine_has_not_are_refused(self) -> None:
        self.assertRaises(
            SystemExit,
            cli.main,
            ['--shape', 'atom_l2', '--options', 'cdp', '--mount', '/'],
        )
