# SPDX-License-Identifier: Apache-2.0

"""Many at a time who want the same, and some who die: for any database.

Processes are forked: each makes connections of its own.
"""

from collections.abc import Callable
from concurrent import futures
import contextlib
import itertools
import multiprocessing
import os
import random
import signal
import threading
from typing import Any

import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import planner
from nova_ext_resources.reservation import quota
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import admission as admission_mod
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import purge
from nova_ext_resources.reservation.store import quotas as quotas_mod
from tests.unit.reservation import changes
from tests.unit.reservation import hosts
from tests.unit.reservation.store import stores

#: How long each waits for all others to have planned.
WAIT_SECONDS = 120

_FORK = multiprocessing.get_context('fork')

DURING = hosts.span(5, 9)


def admit(admission: admission_mod.Admission, key: str, **fields: Any) -> str:
    """Return what came of it, in a word."""
    request = hosts.make_request(key, DURING, **fields)
    try:
        answer = admission.admit(request, now=0, reason=stores.REASON)
    except errors.QuotaExceeded:
        return 'QuotaExceeded'
    except Exception as err:
        return repr(err)
    return type(answer).__name__


def admit_with_others(url: str, key: str, barrier: Any) -> str:
    """Plan, wait until all others have planned, and then write."""
    admission: Any = stores.make_admission(url, hosts.make_host('a'))
    write = admission._write

    def wait_and_write(*args: Any) -> None:
        admission._write = write
        barrier.wait(WAIT_SECONDS)
        write(*args)

    admission._write = wait_and_write
    return admit(admission, key)


def cut_with_others(url: str, amount: int, barrier: Any) -> str:
    """Plan a cut of the host, wait until all have planned, then write."""
    admission: Any = stores.make_admission(url, hosts.make_host('a'))
    write = admission.capacity._write

    def wait_and_write(*args: Any, **kwargs: Any) -> None:
        admission.capacity._write = write
        barrier.wait(WAIT_SECONDS)
        write(*args, **kwargs)

    admission.capacity._write = wait_and_write
    change = changes.make_change('cut', DURING, {'VCPU': -amount})
    try:
        admission.capacity.plan('cut', lambda *_known: change, now=0)
    except errors.CapacityChangeRefused:
        return 'Refused'
    except Exception as err:
        return repr(err)
    return 'Cut'


def race_a_cut(url: str, count: int, amount: int) -> list[str]:
    """Let one cut the host, and all others ask for what it takes away."""
    barrier, answers = _FORK.Barrier(count), _FORK.SimpleQueue()

    def run(key: str) -> None:
        if key == 'p0':
            answers.put(cut_with_others(url, amount, barrier))
        else:
            answers.put(admit_with_others(url, key, barrier))

    return _collect(run, answers, count, 1)


def race_threads(url: str, count: int) -> list[str]:
    barrier, answers = threading.Barrier(count), list[str]()

    def run(key: str) -> None:
        answers.append(admit_with_others(url, key, barrier))

    threads = [
        threading.Thread(target=run, args=(f't{one}',)) for one in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(answers)


def race_for_quota(url: str, count: int) -> list[str]:
    """Let threads of one project ask at once, each on a host of its own.

    Nothing but the quota is in the way of any two of them.
    """
    barrier, answers = threading.Barrier(count), list[str]()

    def run(number: int) -> None:
        host = hosts.make_host(f'host{number}')
        admission: Any = stores.make_admission(url, host)
        write = admission._write

        def wait_and_write(*args: Any) -> None:
            admission._write = write
            barrier.wait(WAIT_SECONDS)
            write(*args)

        admission._write = wait_and_write
        answers.append(admit(admission, f'q{number}', project='red'))

    threads = [
        threading.Thread(target=run, args=(one,)) for one in range(count)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sorted(answers)


def storm_quota(url: str, count: int, each: int) -> list[str]:
    """Let threads of one project ask, change and cancel as fast as they can.

    :returns: what was counted too much at any time; empty where all is well
    """
    answers = list[str]()
    database = databases.Database(url)
    quotas = quotas_mod.Quotas(database, lambda: 1)

    def run(name: str) -> None:
        dice, host = random.Random(name), hosts.make_host(name)
        admission = stores.make_admission(url, host)
        for number in range(each):
            kind = dice.random()
            during = hosts.span(5, 5 + dice.randint(1, 4) * 3600)
            request = hosts.make_request(
                f'{name}.{number if kind < 0.5 else number - 1}',
                during,
                project='red',
            )
            # It may not exist, or be refused.
            with contextlib.suppress(exception.ReservationError):
                if kind < 0.5:
                    admission.admit(request, now=1, reason=stores.REASON)
                elif kind < 0.8:
                    admission.replace(request, now=1, reason=stores.REASON)
                else:
                    _cancel(admission, request.key)
            (use,) = quotas.list_quotas('red')
            if use.used > use.quota.limit:
                answers.append(repr(use))

    with futures.ThreadPoolExecutor(count) as pool:
        done = [pool.submit(run, f's{one}') for one in range(count)]
        answers += [repr(err) for one in done if (err := one.exception())]
    return answers


def race_processes(url: str, count: int, same: str = '') -> list[str]:
    """Let each ask for a reservation of its own, unless all ask for one."""
    barrier, answers = _FORK.Barrier(count), _FORK.SimpleQueue()

    def run(key: str) -> None:
        answers.put(admit_with_others(url, same or key, barrier))

    return _collect(run, answers, count, 1)


def storm(url: str, count: int, each: int) -> list[str]:
    """Let processes ask again and again, on two hosts, as fast as they can."""
    barrier, answers = _FORK.Barrier(count), _FORK.SimpleQueue()

    def run(key: str) -> None:
        admission = stores.make_admission(url)
        barrier.wait(WAIT_SECONDS)
        for number in range(each):
            answers.put(admit(admission, f'{key}.{number}'))

    return _collect(run, answers, count, each)


def mix(url: str, count: int, each: int) -> list[str]:
    """Let processes ask, cancel and delete at random.

    :returns: per act, what is promised too often of what that process sees,
        or its error; empty where all is well
    """
    barrier, answers = _FORK.Barrier(count), _FORK.SimpleQueue()

    def run(key: str) -> None:
        admission, dice = stores.make_admission(url), random.Random(key)
        barrier.wait(WAIT_SECONDS)
        for number in range(each):
            answers.put(_act(admission, f'{key}.{number}', dice))

    return _collect(run, answers, count, each)


def _act(
    admission: admission_mod.Admission, key: str, dice: random.Random
) -> str:
    mirror = admission._mirror
    try:
        if dice.random() < 0.1:
            purge.purge(admission._database, 1, 3)
        elif mirror.held and dice.random() < 0.4:
            _cancel(admission, dice.choice([*mirror.held]))
        else:
            start = dice.randint(2, 12)
            amounts = {'VCPU': dice.choice([3, 4, 5, 8])}
            request = hosts.make_request(
                key,
                hosts.span(start, start + dice.randint(1, 6)),
                hosts.make_demand(_=amounts),
                least=dice.choice([1, 1, 2]),
            )
            admission.admit(request, now=1, reason=stores.REASON)
    except Exception as err:
        return repr(err)
    broken = hosts.list_overbooked(mirror.planner.fleet.calendar)
    return repr(broken) if broken else ''


def _cancel(admission: admission_mod.Admission, key: str) -> None:
    # Another one may have cancelled it, and deleted it, since.
    with contextlib.suppress(exception.ReservationError):
        admission.change(
            key, state.State.CANCELLED, now=1, reason='not needed'
        )


def _collect(
    run: Callable[[str], None], answers: Any, count: int, each: int
) -> list[str]:
    children = [
        _FORK.Process(target=run, args=(f'p{one}',)) for one in range(count)
    ]
    for child in children:
        child.start()
    found = [answers.get() for _one in range(count * each)]
    for child in children:
        child.join()
    return sorted(found)


def die_after(
    url: str, step: int, action: Callable[[Any], object], names: str = 'a'
) -> bool:
    """Kill a process after so many statements that write, and at the commit.

    :param names: of its hosts
    :returns: whether there was such a step
    """

    def run() -> None:
        admission = stores.make_admission(url, *map(hosts.make_host, names))
        engine, steps = admission._database.engine, itertools.count(1)
        written: list[str] = []

        def count(*_args: object) -> None:
            if next(steps) == step:
                os.kill(os.getpid(), signal.SIGKILL)

        def count_writes(*args: Any) -> None:
            if args[2].startswith(('UPDATE', 'INSERT', 'DELETE')):
                written.append(args[2])
                count()

        def count_commits(_connection: object) -> None:
            if written:
                count()

        sa.event.listen(engine, 'after_cursor_execute', count_writes)
        sa.event.listen(engine, 'commit', count_commits)
        action(admission)

    child = _FORK.Process(target=run)
    child.start()
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL), child.exitcode
    return child.exitcode != 0


class RaceTests:
    """What holds on each database. Mixed into a :class:`.StoreTestCase`."""

    def take_all_but_one(self: Any) -> None:
        admission = stores.make_admission(self.url, hosts.make_host('a'))
        self.admit(admission, 'before', DURING)

    def check_one_wins(self: Any, answers: list[str]) -> None:
        self.assertEqual(['Plan', *['Refusal'] * (len(answers) - 1)], answers)
        self.assertEqual(8, stores.count_peak(self.url, 'a'))

    def test_one_thread_gets_the_last_unit(self: Any) -> None:
        self.take_all_but_one()

        self.check_one_wins(race_threads(self.url, 6))

    def test_one_process_gets_the_last_unit(self: Any) -> None:
        self.take_all_but_one()

        self.check_one_wins(race_processes(self.url, 6))

    def test_a_cut_or_those_who_want_what_it_takes_away(self: Any) -> None:
        self.take_all_but_one()

        answers = race_a_cut(self.url, 6, 1)

        refused = ['Refusal'] * 4
        self.assertIn(
            answers,
            [['Cut', *refused, 'Refusal'], ['Plan', *refused, 'Refused']],
        )
        peak = 4 if 'Cut' in answers else 8
        self.assertEqual(peak, stores.count_peak(self.url, 'a'))

    def test_a_request_that_many_send_is_admitted_once(self: Any) -> None:
        answers = race_processes(self.url, 6, same='lease')

        self.assertEqual(['Plan'] * 6, answers)
        self.assertEqual(4, stores.count_peak(self.url, 'a'))

    def test_sixteen_processes_get_all_there_is_and_no_more(
        self: Any,
    ) -> None:
        answers = storm(self.url, 16, 2)

        self.assertEqual(['Plan'] * 4 + ['Refusal'] * 28, answers)
        for host in ('a', 'b'):
            self.assertEqual(8, stores.count_peak(self.url, host))

    def set_quota(self: Any, unit_hours: int) -> None:
        database = databases.Database(self.url)
        quotas_mod.Quotas(database, lambda: 0).set_quota(
            'red', 'VCPU', unit_hours
        )

    def test_sixteen_threads_never_pass_a_quota(self: Any) -> None:
        # Sixteen unit-seconds each.
        self.patch(quota, 'HOUR', 16)
        self.set_quota(5)

        answers = race_for_quota(self.url, 16)

        self.assertEqual(['Plan'] * 5 + ['QuotaExceeded'] * 11, answers)

    def test_threads_that_ask_change_and_cancel_within_a_quota(
        self: Any,
    ) -> None:
        self.set_quota(60)

        self.assertEqual([], storm_quota(self.url, 8, 20))

        charged = stores.dump(self.url)['charges']
        self.assertLessEqual(
            sum(one.amount * (one.ends_at - one.starts_at) for one in charged),
            60 * 3600,
        )
        self.assertNotEqual([], charged)

    def test_processes_that_ask_cancel_and_delete(self: Any) -> None:
        self.patch(admission_mod, 'FIXED_SECONDS', 0)

        self.assertEqual([''] * 240, mix(self.url, 6, 40))

        for host in ('a', 'b'):
            self.assertLessEqual(stores.count_peak(self.url, host), 8)

    def test_a_process_that_dies_in_an_admission_leaves_nothing(
        self: Any,
    ) -> None:
        def die(admission: admission_mod.Admission) -> None:
            admit(admission, 'lease')

        self.check_all_or_nothing(die)

    def test_a_process_that_dies_in_a_release_leaves_all(self: Any) -> None:
        admission = stores.make_admission(self.url, hosts.make_host('a'))
        plan = self.admit(admission, 'lease', DURING, least=2)
        self.assertIsInstance(plan, planner.Plan)

        def die(admission: admission_mod.Admission) -> None:
            admission.change(
                'lease', state.State.CANCELLED, now=1, reason='not needed'
            )

        self.check_all_or_nothing(die)
        self.assertEqual(0, stores.count_peak(self.url, 'a'))

    def check_all_or_nothing(
        self: Any, action: Callable[[admission_mod.Admission], None]
    ) -> None:
        before = stores.dump(self.url)
        for step in itertools.count(1):
            if not die_after(self.url, step, action):
                break
            self.assertEqual(before, stores.dump(self.url), f'step {step}')
        self.assertGreater(step, 3)
        self.assertNotEqual(before, stores.dump(self.url))
