# SPDX-License-Identifier: Apache-2.0

import concurrent.futures
import random
import threading

from nova_ext_resources import exception
from nova_ext_resources.host import manager
from nova_ext_resources.objects import bitmask
from tests.unit.host import with_host

THREADS = 8

WAYS = with_host.WAYS


def make_uuid(number: int) -> str:
    return f'00000000-0000-4000-8000-{number:012}'


class Watch(threading.Thread):
    """Looks at the host all the time, as Nova and the publisher do."""

    def __init__(self, host: manager.HostManager, *, is_heal: bool) -> None:
        super().__init__()
        self.host = host
        self.is_heal = is_heal
        self.ending = threading.Event()
        self.faults: list[str] = []

    def run(self) -> None:
        while not self.ending.wait(0.002):
            self.host.stats()
            self.host.providers()
            self.check()
            self.host.refresh()
            if self.is_heal:
                self.host.heal()

    def check(self) -> None:
        view, entries = self.host.view, self.host.entries
        for rp_uuid, held in with_host.masks_of(entries).items():
            used = view.tracked[rp_uuid, with_host.WAYS].state.used
            if not all(map(bitmask.is_contiguous, held)):
                self.faults.append(f'{held}')
            # Between the two reads something may have changed.
            amount = sum(mask.bit_count() for mask in held)
            if used != amount and entries is self.host.entries:
                self.faults.append(f'{held}: {used} are counted')


class ThreadsTest(with_host.RmdHostTestCase):
    """Eight builds at a time on one host, and those who watch it."""

    def run_threads(
        self, host: manager.HostManager, rounds: int, *, is_heal: bool
    ) -> int:
        """Come and go; give how many servers got what they asked for."""
        watch = Watch(host, is_heal=is_heal)
        watch.start()
        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            built = [
                pool.submit(self.come_and_go, host, number, rounds)
                for number in range(THREADS)
            ]
            done = sum(one.result() for one in built)
        watch.ending.set()
        watch.join()
        self.assertEqual([], watch.faults)
        return done

    def come_and_go(
        self, host: manager.HostManager, number: int, rounds: int
    ) -> int:
        chance = random.Random(number)
        done = 0
        for turn in range(rounds):
            uuid = make_uuid(100 * number + turn)
            domain = chance.randrange(2)
            cpu = number + 1 + 12 * domain
            try:
                host.claim(
                    with_host.make_claim(
                        uuid,
                        chance.randrange(1, 5),
                        domain=domain,
                        cpus=frozenset({cpu}),
                    )
                )
                host.apply(uuid)
                done += 1
            except exception.ClaimError:
                continue
            finally:
                host.release(uuid)
        return done

    def assert_clean(self, host: manager.HostManager) -> None:
        self.assertEqual({}, host.entries)
        self.assertEqual({}, self.read_rows())
        self.assert_consistent(host)

    def test_threads_never_share_ways_that_are_only_counted(self) -> None:
        host = self.make_noop_host()

        done = self.run_threads(host, 25, is_heal=True)

        self.assertGreater(done, THREADS)
        self.assert_clean(host)

    def test_threads_never_share_ways_of_rmd(self) -> None:
        host = self.make_rmd_host()

        done = self.run_threads(host, 4, is_heal=True)

        self.assertGreater(done, THREADS)
        self.assert_clean(host)
        self.assertEqual({}, self.list_in_force())
        host.heal()
        self.assertEqual((), host.problems)

    def test_requests_for_one_server_run_one_after_the_other(self) -> None:
        host = self.make_rmd_host()
        uuid = make_uuid(1)

        def act(number: int) -> None:
            for _ in range(3):
                host.claim(with_host.make_claim(uuid, 1 + number % 3))
                host.apply(uuid)
                if number % 2:
                    host.release(uuid)

        with concurrent.futures.ThreadPoolExecutor(THREADS) as pool:
            for done in [pool.submit(act, n) for n in range(THREADS)]:
                done.result()

        host.apply(uuid)
        self.assert_agreement(host)
        host.release(uuid)
        self.assert_clean(host)
