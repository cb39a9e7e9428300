# SPDX-License-Identifier: Apache-2.0

"""Runs the plan: fetches, builds, boots, tests, and reports."""

import argparse
from collections.abc import Sequence
from multiprocessing import pool as pool_mod
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import time
import traceback

from dev.kernel import archive as archive_mod
from dev.kernel.boot import guest as guest_mod
from dev.kernel.emulator import build
from dev.kernel import machines
from dev.kernel import obstacle
from dev.kernel import plan
from dev.kernel import report
from dev.kernel import room

ROOT = pathlib.Path(__file__).resolve().parents[2]

#: Downloads and builds, kept from run to run; and what the guests said.
CACHE = ROOT / '.tox' / 'kernels'

#: Bytecode of the tests: compiling takes an emulated machine minutes.
BYTECODE = CACHE / 'bytecode'

#: Seconds for one step of a guest, on a machine with other work.
PATIENCE = 3600.0

_ENVIRONMENT = {
    'LC_ALL': 'C.UTF-8',
    'OS_NOVA_DISABLE_EVENTLET_PATCHING': '1',
    'OS_STDERR_CAPTURE': '1',
    'OS_STDOUT_CAPTURE': '1',
    'OS_TEST_TIMEOUT': '300',
    'PYTHONPYCACHEPREFIX': str(BYTECODE),
    'PYTHONWARNINGS': 'ignore',
}


def main() -> int:
    arguments = read_arguments()
    # So that the guest is ended.
    signal.signal(signal.SIGTERM, lambda *_args: sys.exit(1))
    try:
        obstacle.check()
        return run(arguments)
    except obstacle.Obstacle as err:
        print(f'The tests on real kernels cannot run: {err}.', file=sys.stderr)
        return 1


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--kernel', help='only this series, for example 6.12')
    parser.add_argument('--machine', help='only this machine')
    parser.add_argument(
        '--shell',
        action='store_true',
        help='run one script from the standard input in place of the tests',
    )
    parser.add_argument('tests', nargs='*', help='only these tests')
    return parser.parse_args()


def run(arguments: argparse.Namespace) -> int:
    """Run the plan; return a status for the shell.

    :raises obstacle.Obstacle: something that it needs is missing
    """
    jobs = choose(arguments)
    CACHE.mkdir(parents=True, exist_ok=True)
    archive = archive_mod.Archive(CACHE / 'apt')
    archive.update()
    qemu, version = build.get(archive, CACHE)
    print(f'== QEMU {version}', flush=True)
    # All that can be missing is missed before the first guest.
    trees = {one: get_kernel(archive, one) for one in {j.series for j in jobs}}
    warm_up(jobs)
    # Its threads do not keep a process alive that is told to end; the guests
    # end with it.
    with pool_mod.ThreadPool(room.count_guests(jobs)) as pool:
        results = pool.map(
            lambda one: run_job(qemu, trees[one.series], one, arguments),
            jobs,
            chunksize=1,
        )
    return report.tell(results)


def choose(arguments: argparse.Namespace) -> list[plan.Job]:
    """Return what of the plan is wanted, or what else is.

    :raises obstacle.Obstacle: that is nothing
    """
    if arguments.machine not in (None, *machines.MACHINES):
        raise obstacle.Obstacle(
            f'there is no machine {arguments.machine}, but '
            + ', '.join(machines.MACHINES)
        )
    if arguments.tests or arguments.shell:
        return [
            plan.Job(
                series=arguments.kernel or plan.JOBS[0].series,
                machine=arguments.machine or 'skylake2',
                tests=tuple(arguments.tests),
            )
        ]
    return _choose_planned(arguments.kernel, arguments.machine)


def _choose_planned(series: str | None, machine: str | None) -> list[plan.Job]:
    found = [
        one
        for one in plan.JOBS
        if series in (None, one.series) and machine in (None, one.machine)
    ]
    if not found:
        planned = (f'{one.series} with {one.machine}' for one in plan.JOBS)
        raise obstacle.Obstacle(
            f'the plan has no kernel {series or "at all"} with the machine '
            f'{machine or "of any name"}, but {", ".join(planned)}; name '
            'tests to run them on another one'
        )
    return found


def warm_up(jobs: Sequence[plan.Job]) -> None:
    """Compile here what the guests will import.

    :raises obstacle.Obstacle: a test cannot be loaded
    """
    names = {name for one in jobs for name in one.list_tests()}
    command = [
        sys.executable,
        '-c',
        'import sys, unittest\n'
        'loader = unittest.TestLoader()\n'
        'loader.loadTestsFromNames(sys.argv[1:])\n'
        'sys.exit("\\n".join(loader.errors) or None)',
    ]
    ended = subprocess.run(
        [*command, *sorted(names)],
        cwd=ROOT,
        env={**os.environ, **_ENVIRONMENT},
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    if ended.returncode:
        raise obstacle.Obstacle(
            f'a test cannot be loaded: {ended.stderr.strip()}'
        )


def get_kernel(archive: archive_mod.Archive, series: str) -> pathlib.Path:
    """Return an unpacked kernel, the newest of its series.

    :raises obstacle.Obstacle: the archive has none
    """
    found = archive.list_kernels()
    package = found.get(series)
    if package is None:
        raise obstacle.Obstacle(
            f'the archive has no kernel {series}, but {", ".join(found)}'
        )
    tree = CACHE / package
    if not tree.exists():
        print(f'== fetching {package}', flush=True)
        archive.fetch_kernel(package, tree)
    return tree


def run_job(
    qemu: pathlib.Path,
    tree: pathlib.Path,
    job: plan.Job,
    arguments: argparse.Namespace,
) -> report.Result:
    """Run one guest of the plan.

    Whatever ends it is a problem of this one: what the guests before it have
    shown is told at the end.
    """
    name = f'{tree.name.removeprefix("linux-image-")}-{job.machine}'
    guest_mod.say(name, 'starts')
    result = report.Result(name=name, folder=CACHE / 'out' / name)
    began = time.monotonic()
    machine = machines.MACHINES[job.machine]
    try:
        with guest_mod.running(qemu, tree, machine, result.folder) as guest:
            seconds = time.monotonic() - began
            guest_mod.say(name, f'up after {seconds:.0f} s')
            if arguments.shell:
                result.add_status(guest.run(sys.stdin.read(), PATIENCE))
            else:
                run_steps(guest, job, result)
    except Exception as err:
        traceback.print_exc()
        result.problems.append(f'{type(err).__name__}: {err}')
    result.minutes = (time.monotonic() - began) / 60
    return result


def run_steps(
    guest: guest_mod.Guest, job: plan.Job, result: report.Result
) -> None:
    """Do everything that a job is for."""
    if job.is_asked:
        words = ['-m', 'tests.kernel.ask', '/run/out/kernel.json']
        status = guest.run(make_script(job, words), PATIENCE)
        result.add_status(status)
        if not status:
            ask_model(job, result)
    tests = job.list_tests()
    if tests:
        words = ['-m', 'tests.kernel.run', '/run/out/tests.jsonl', *tests]
        try:
            result.add_status(guest.run(make_script(job, words), PATIENCE))
        finally:
            # Also where the guest is lost half-way.
            result.add_tests(job.series)


def ask_model(job: plan.Job, result: report.Result) -> None:
    """Ask the model what the kernel was asked, and compare."""
    out = result.folder / 'model.json'
    words = ['-m', 'tests.kernel.ask', '--model', job.series, str(out)]
    ended = subprocess.run(
        [sys.executable, *words], cwd=ROOT, timeout=PATIENCE, check=False
    )
    result.add_status(ended.returncode)
    if not ended.returncode:
        result.add_answers(job.series)


def make_script(job: plan.Job, words: Sequence[str]) -> str:
    """Return a script for the guest that runs Python with these words."""
    given = {**_ENVIRONMENT, 'OS_TEST_RESCTRL': job.machine}
    lines = [f'export {name}={shlex.quote(v)}' for name, v in given.items()]
    lines.append(f'cd {shlex.quote(str(ROOT))}')
    lines.append(shlex.join(['exec', sys.executable, *words]))
    return '\n'.join(lines) + '\n'
