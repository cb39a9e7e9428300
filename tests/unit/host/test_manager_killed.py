# SPDX-License-Identifier: Apache-2.0

import itertools

from nova_ext_resources.host import manager
from nova_ext_resources.objects import assignment
from tests.unit.host import dying
from tests.unit.host import killing
from tests.unit.host import with_host


class KilledHostTest(killing.KilledCases, with_host.RmdHostTestCase):
    def list_arguments(self) -> list[str]:
        return ['rmd', f'url={self.fixture.url}']

    def restart(self) -> manager.HostManager:
        return self.make_rmd_host()

    def lose_everything(self) -> None:
        self.simulator.restart(keep_database=False)

    def wait_for_the_dead(self) -> None:
        # Its last request may still be answered.
        with self.simulator.daemon.locked():
            pass

    def test_a_repair_that_gets_other_ways_may_be_killed(self) -> None:
        # Killed between RMD's grant and the ledger, too.
        for step in itertools.count(1):
            self.assertLess(step, killing.MAX_STEPS)
            before = self.leave_neighbour_below()
            self.lose_everything()

            was_killed = self.run_until('heal', step)

            with self.subTest(step=step):
                again = self.restart()
                again.reconcile([dying.NEIGHBOUR])
                after = again.entries[dying.NEIGHBOUR]
                self.assertNotEqual(before, after.assignments)
                self.assert_mended(again, after)
                again.close()
            if not was_killed:
                break

    def leave_neighbour_below(self) -> tuple[assignment.Assignment, ...]:
        """Let the neighbour have ways with free ones above them."""
        host = self.restart()
        host.release(dying.NEIGHBOUR)
        host.claim(with_host.make_claim(dying.SERVER, 3))
        dying.claim_neighbour(host)
        host.release(dying.SERVER)
        host.close()
        return host.entries[dying.NEIGHBOUR].assignments
