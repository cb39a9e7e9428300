# SPDX-License-Identifier: Apache-2.0

"""Captured trees of real machines are read."""

import os

from nova_ext_resources.testing import resctrl
from nova_ext_resources.testing.resctrl import sysfs
from tests import base

#: As a machine of two sockets shows it, mounted by somebody who uses it.
CAPTURED = {
    'schemata': '    MB:0=100;1=100\n    L3:0=7f0;1=7ff\n',
    'size': '    MB:0=100;1=100\n    L3:0=16515072;1=25952256\n',
    'cpus': 'ff\n',
    'cpus_list': '0-1,4-7\n',
    'mode': 'shareable\n',
    'tasks': '1\n2\n',
    'info/last_cmd_status': 'ok\n',
    'info/L3/num_closids': '16\n',
    'info/L3/cbm_mask': '7ff\n',
    'info/L3/min_cbm_bits': '1\n',
    'info/L3/shareable_bits': '600\n',
    'info/MB/num_closids': '8\n',
    'info/MB/min_bandwidth': '10\n',
    'info/MB/bandwidth_gran': '10\n',
    'info/MB/delay_linear': '1\n',
    'info/L3_MON/num_rmids': '176\n',
    'info/L3_MON/mon_features': 'llc_occupancy\nmbm_local_bytes\n',
    'theirs/schemata': '    MB:0= 50;1=100\n    L3:0=00f;1=7ff\n',
    'theirs/cpus_list': '2-3\n',
    'theirs/mode': 'shareable\n',
}


class CapturedTest(base.TestCase):
    def write(self, files: dict[str, str], place: str = '') -> str:
        folder = self.make_folder()
        for name, text in files.items():
            path = os.path.join(folder, place, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, 'w') as stream:
                stream.write(text)
        return folder

    def test_it_answers_as_the_machine_did(self) -> None:
        shape = resctrl.Shape.from_tree(self.write(CAPTURED))

        fs = self.useFixture(resctrl.ResctrlFixture(shape)).file_system

        told = {
            name: fs.read(name)
            for name in CAPTURED
            if os.path.basename(name) not in ('tasks', 'cpus')
        }
        for name, text in told.items():
            with self.subTest(name):
                self.assertEqual(CAPTURED[name], text)
        fs.write('schemata', 'L3:0=3\n')

    def test_each_place_of_the_tree_is_found(self) -> None:
        shapes = [
            resctrl.Shape.from_tree(self.write(CAPTURED, place)).caches
            for place in ('', 'resctrl', 'sys/fs/resctrl')
        ]

        self.assertEqual([shapes[0]] * 3, shapes)

    def test_cpus_are_dealt_out_where_nobody_tells(self) -> None:
        shape = resctrl.Shape.from_tree(self.write(CAPTURED))

        self.assertEqual(
            [{0, 1, 2, 3}, {4, 5, 6, 7}],
            [domain.cpus for domain in shape.caches[0].domains],
        )

    def test_a_folder_that_has_none_is_refused(self) -> None:
        error = self.assertRaises(
            ValueError, resctrl.Shape.from_tree, self.make_folder()
        )

        self.assertIn('no schemata, no info', str(error))

    def test_a_file_that_is_no_number_is_named(self) -> None:
        broken = {**CAPTURED, 'info/L3/num_closids': 'sixteen\n'}

        error = self.assertRaises(
            ValueError, resctrl.Shape.from_tree, self.write(broken)
        )

        self.assertIn("num_closids says 'sixteen'", str(error))


class RoundTripTest(base.TestCase):
    """What a machine shows makes the same machine again."""

    def capture(self, name: str) -> tuple[str, dict[str, str]]:
        machine = self.useFixture(resctrl.ResctrlFixture(name))
        machine.kernel.add_group('theirs')
        folder = self.make_folder()
        sysfs.write(machine.shape, os.path.join(folder, 'sys/devices/system'))
        files: dict[str, str] = {}
        self.copy(machine.file_system, '', folder, files)
        return folder, files

    def copy(
        self,
        fs: resctrl.Tree,
        path: str,
        folder: str,
        files: dict[str, str],
    ) -> None:
        """Copy a tree, as "cp -r" would."""
        for name in fs.listdir(path):
            here = f'{path}/{name}' if path else name
            target = os.path.join(folder, 'sys/fs/resctrl', here)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            try:
                files[here] = fs.read(here)
            except IsADirectoryError:
                self.copy(fs, here, folder, files)
                continue
            with open(target, 'w') as stream:
                stream.write(files[here])

    def test_every_machine_comes_back(self) -> None:
        for name in resctrl.SHAPES:
            with self.subTest(name):
                folder, files = self.capture(name)

                shape = resctrl.Shape.from_tree(folder)

                made = self.useFixture(resctrl.ResctrlFixture(shape))
                again: dict[str, str] = {}
                self.copy(made.file_system, '', self.make_folder(), again)
                # The kernel's own choice, not the machine's.
                for one in (files, again):
                    one.pop('info/L3_MON/max_threshold_occupancy', None)
                    one.pop('info/MB/thread_throttle_mode', None)
                self.assertEqual(files, again)

    def test_the_cpus_of_a_cache_are_those_that_sysfs_tells(self) -> None:
        for name, known in resctrl.SHAPES.items():
            with self.subTest(name):
                folder, _files = self.capture(name)

                shape = resctrl.Shape.from_tree(folder)

                self.assertEqual(
                    {c.level: c.domains for c in known.caches},
                    {c.level: c.domains for c in shape.caches},
                )
