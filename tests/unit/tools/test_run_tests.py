# SPDX-License-Identifier: Apache-2.0

"""Whether a run of tests ends with what failed and what it skipped."""

from importlib.util import cache_from_source
import marshal
import os
import pathlib
import subprocess
import sys
import textwrap

from tests import base
from tools import run_tests

TOOL = pathlib.Path(__file__).parents[3] / 'tools' / 'run_tests.py'

#: Seconds for stestr to start two times on a busy machine.
PATIENCE = 120


class RunTestsTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = self.make_folder()
        self.write('.stestr.conf', '[DEFAULT]\ntest_path=./checks\n')
        self.write('checks/__init__.py', '')

    def write(self, name: str, text: str) -> None:
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, 'w', encoding='utf-8') as file:
            file.write(textwrap.dedent(text))

    def run_tool(
        self, body: str, *options: str, **variables: str
    ) -> tuple[int, str]:
        """Run tests; return the exit status and the output."""
        self.write('checks/test_it.py', f'import unittest\n\n\n{body}')
        options = options or ('--concurrency', '1')
        environ = {**os.environ, 'TOX_ENV_DIR': self.folder}
        environ.pop('TMPDIR', None)
        environ.update(variables)
        # The coverage of this run is not that of the one around it.
        environ.pop('PYTHON', None)
        done = subprocess.run(
            [sys.executable, str(TOOL), 'run', *options],
            cwd=self.folder,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=PATIENCE,
        )
        return done.returncode, done.stdout

    def read_kept(self, name: str = 'last_lines.txt') -> str:
        path = pathlib.Path(self.folder, name)
        return path.read_text(encoding='utf-8')

    def test_a_list_of_tests_that_are_left_out_is_named(self) -> None:
        self.write('list.txt', 'test_b\n')

        status, output = self.run_tool(
            """
class Test(unittest.TestCase):
    def test_a(self):
        pass

    def test_b(self):
        self.fail()
""",
            '--exclude-list',
            'list.txt',
        )

        self.assertEqual(0, status, output)
        self.assertEqual('Without the tests of list.txt.\n', self.read_kept())

    def test_the_last_lines_count_what_was_skipped_by_reason(self) -> None:
        status, output = self.run_tool("""
class FirstTest(unittest.TestCase):
    def test_a(self):
        self.skipTest('needs to be root')

    def test_b(self):
        pass


@unittest.skip('FUSE cannot mount here')
class SecondTest(unittest.TestCase):
    def test_c(self):
        pass

    def test_d(self):
        pass
""")

        self.assertEqual(0, status, output)
        last = output.splitlines()[-3:]
        self.assertIn('NOT ALL WAS TESTED: 3 tests were skipped', last[0])
        self.assertEqual('    2  FUSE cannot mount here', last[1])
        self.assertEqual('    1  needs to be root', last[2])
        self.assertEqual(last, self.read_kept().splitlines())
        self.assertEqual(
            [
                rf'^checks\.test_it\.{name}$'
                for name in (
                    r'FirstTest\.test_a',
                    r'SecondTest\.test_c',
                    r'SecondTest\.test_d',
                )
            ],
            sorted(self.read_kept('skipped.txt').splitlines()),
        )

    def test_a_class_that_is_skipped_stands_for_its_tests(self) -> None:
        status, output = self.run_tool("""
class FirstTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise unittest.SkipTest('MariaDB is not installed')

    def test_a(self):
        pass


class SecondTest(unittest.TestCase):
    def test_b(self):
        pass
""")

        self.assertEqual(0, status, output)
        kept = os.path.join(self.folder, 'skipped.txt')
        self.assertEqual(
            [r'^checks\.test_it\.FirstTest\.'],
            self.read_kept('skipped.txt').splitlines(),
        )
        _status, output = self.run_tool(
            """
class FirstTest(unittest.TestCase):
    def test_a(self):
        pass


class SecondTest(unittest.TestCase):
    def test_b(self):
        self.fail()
""",
            '--concurrency',
            '1',
            '--include-list',
            kept,
        )
        self.assertIn(' - Passed: 1\n', output)

    def test_a_failed_run_says_so_too_and_stays_failed(self) -> None:
        status, output = self.run_tool("""
class FirstTest(unittest.TestCase):
    def test_a(self):
        self.skipTest('needs to be root')

    def test_b(self):
        self.fail('it is broken')
""")

        self.assertEqual(1, status, output)
        self.assertEqual('    1  needs to be root', output.splitlines()[-1])

    def test_the_last_lines_name_what_failed(self) -> None:
        status, output = self.run_tool("""
class FirstTest(unittest.TestCase):
    def test_a(self):
        self.addCleanup(print, 'much')
        self.assertEqual(1, 2)

    def test_b(self):
        raise OSError('there is no disk')

    def test_c(self):
        pass

    @unittest.expectedFailure
    def test_d(self):
        pass


class SecondTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        raise OSError('there is no network')

    def test_e(self):
        pass
""")

        self.assertEqual(1, status, output)
        last = output.splitlines()[-5:]
        self.assertEqual(
            [
                'FAILED: 4 tests:',
                '  checks.test_it.FirstTest.test_a: test_it.py:8 '
                'AssertionError: 1 != 2',
                '  checks.test_it.FirstTest.test_b: test_it.py:11 '
                'OSError: there is no disk',
                '  checks.test_it.FirstTest.test_d: no traceback: it passed '
                'against expectation, or did not end',
                '  setUpClass (checks.test_it.SecondTest): test_it.py:24 '
                'OSError: there is no network',
            ],
            last,
        )
        self.assertEqual(last, self.read_kept().splitlines())

    def test_modules_are_compiled_once(self) -> None:
        self.write('of_ours/one.py', 'NAME = 1\n')
        self.write('of_ours/broken.py', 'NAME =\n')
        folder = pathlib.Path(self.folder)
        kept = pathlib.Path(cache_from_source(f'{folder}/of_ours/one.py'))

        run_tests.compile_modules(folder)
        self.assertEqual(run_tests._BY_HASH, kept.read_bytes()[:8])
        made = kept.stat().st_ino
        run_tests.compile_modules(folder)

        self.assertEqual(made, kept.stat().st_ino)
        # Of the same size, within the same second.
        self.write('of_ours/one.py', 'NAME = 2\n')
        run_tests.compile_modules(folder)
        code = marshal.loads(kept.read_bytes()[16:])
        self.assertEqual(2, code.co_consts[0])

    def test_they_have_only_the_beginning_of_a_log(self) -> None:
        _status, output = self.run_tool("""
class FirstTest(unittest.TestCase):
    def test_a(self):
        raise OSError('the log has no such line: ' + 1000 * 'x')
""")

        last = output.splitlines()[-1]
        self.assertIn(
            'test_it.py:7 OSError: the log has no such line: xxx', last
        )
        self.assertLess(len(last), 400)

    def test_a_worker_that_died_is_named_by_its_test(self) -> None:
        status, output = self.run_tool("""
import os

class FirstTest(unittest.TestCase):
    def test_a(self):
        os._exit(3)
""")

        self.assertEqual(1, status, output)
        self.assertIn('FirstTest.test_a: no traceback', self.read_kept())

    def test_a_whole_run_ends_as_ever(self) -> None:
        self.write('last_lines.txt', 'of the run before')

        status, output = self.run_tool("""
class FirstTest(unittest.TestCase):
    def test_a(self):
        pass

    def test_b(self):
        self.skipTest('Nova is not installed here; others load it')
""")

        self.assertEqual(0, status, output)
        self.assertNotIn('NOT ALL', output)
        self.assertEqual('', self.read_kept())

    def test_as_many_run_at_a_time_as_the_environment_says(self) -> None:
        cpus = len(os.sched_getaffinity(0))
        tests = '\n'.join(
            f'class Some{number}Test(unittest.TestCase):\n'
            f'    def test_it(self):\n'
            f'        pass\n\n'
            for number in range(3 * cpus)
        )

        _, output = self.run_tool(tests, '--color', TESTS_PER_CPU='2')
        _, serial = self.run_tool(tests, '--serial', TESTS_PER_CPU='2')

        self.assertEqual(2 * cpus, output.count(' - Worker '), output)
        self.assertEqual(1, serial.count(' - Worker '), serial)

    def test_temporary_files_are_in_memory_and_go_with_the_run(self) -> None:
        body = """
import os
import pathlib
import tempfile

class FirstTest(unittest.TestCase):
    def test_a(self):
        pathlib.Path('folder').write_text(tempfile.mkdtemp())
"""
        has_room = run_tests.has_room('/dev/shm')
        for variables, is_there in (
            ({'TESTS_IN_MEMORY': '1'}, has_room),
            ({'TESTS_IN_MEMORY': '0'}, False),
            ({'TESTS_IN_MEMORY': '1', 'TMPDIR': self.folder}, False),
        ):
            with self.subTest(variables=variables):
                self.run_tool(body, **variables)
                made = pathlib.Path(self.folder, 'folder').read_text()
                # What is in memory goes with the run.
                self.assertEqual(not is_there, os.path.isdir(made), made)
        self.assertFalse(run_tests.has_room('/proc'))
