# SPDX-License-Identifier: Apache-2.0

"""A host whose enforcer asks the hypervisor which guests run."""

from collections.abc import Callable
import threading

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.facts import guest
from tests.unit import guests
from tests.unit.host import test_with_resctrl_pools as pools

A, B, C = pools.A, pools.B, pools.C

#: Seconds in which a lock that nobody holds is had.
PATIENCE = 60.0


class GuestsTest(pools.PoolsTestCase):
    """Only libvirt's pid files say which processes are a server's."""

    TASKS = 'proc'

    def setUp(self) -> None:
        # For each question, whether the mount was locked.
        self.asked: list[bool] = []
        # What happens after the next answer was made.
        self.meanwhile: list[Callable[[], object]] = []
        self.folder = self.make_folder()
        super().setUp()
        self.reopen(shared_ways=3, pid_path=self.folder)

    def list_running(self) -> dict[str, guest.Guest] | None:
        self.asked.append(self.is_locked())
        answer = super().list_running()
        if self.meanwhile:
            self.meanwhile.pop()()
        return answer

    def is_locked(self) -> bool:
        """Return whether another thread would wait for the mount."""

        def lock() -> None:
            with self.machine.file_system.lock(True):
                pass

        thread = threading.Thread(target=lock, daemon=True)
        thread.start()
        thread.join(PATIENCE)
        return thread.is_alive()

    def boot(self, uuid: str) -> guests.Guest:
        """Have the hypervisor run a server, and start it."""
        path = f'{self.folder}/vm-{uuid}.pid'
        made = self.useFixture(guests.Guest(path, 3, '-pidfile'))
        number = len(self.running) + 1
        self.running[uuid] = guest.Guest(name=f'vm-{uuid}', number=number)
        self.join(uuid)
        return made

    def join(self, uuid: str, cpus: frozenset[int] | None = None) -> None:
        self.start_with(uuid, {'L3_0': {classes.SHARED: 1}}, cpus=cpus)

    def list_inside(self) -> set[int]:
        return set(self.kernel.list_groups()['nova-shared']['tasks'])

    def test_nobody_waits_while_it_is_asked(self) -> None:
        a, b = self.boot(A), self.boot(B)
        self.assertEqual(
            a.list_threads() | b.list_threads(), self.list_inside()
        )
        self.host.release(A)
        self.assertEqual(b.list_threads(), self.list_inside())
        self.heal()
        self.host.release(B)

        self.assertEqual({False}, set(self.asked))

    def test_it_is_not_asked_for_servers_that_are_pinned(self) -> None:
        self.join(A, frozenset({1}))
        self.join(B, frozenset({2}))
        self.host.release(A)

        self.assertEqual([], self.asked)

    def test_one_that_comes_in_after_the_answer_stays_in(self) -> None:
        found: list[guests.Guest] = []
        self.meanwhile.append(lambda: found.append(self.boot(B)))

        a = self.boot(A)

        inside = a.list_threads() | found[0].list_threads()
        self.assertEqual(inside, self.list_inside())
        self.heal()
        self.assertEqual(inside, self.list_inside())

    def test_so_it_does_when_another_leaves(self) -> None:
        a, b = self.boot(A), self.boot(B)
        found: list[guests.Guest] = []
        self.meanwhile.append(lambda: found.append(self.boot(C)))

        self.host.release(A)

        stay = b.list_threads() | found[0].list_threads()
        self.assertEqual(stay, self.list_inside() - a.list_threads())
        self.heal()
        self.assertEqual(stay, self.list_inside())

    def test_one_that_is_off_is_no_failure_when_another_comes_in(self) -> None:
        self.join(A)
        self.meanwhile.append(lambda: self.boot(B))

        self.host.apply(A)

        self.assertEqual([], self.meanwhile)
        self.heal()
