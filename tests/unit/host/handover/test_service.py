# SPDX-License-Identifier: Apache-2.0

import os

from nova_ext_resources import exception
from nova_ext_resources.host.handover import journal
from nova_ext_resources.host.service import wiring
from tests.unit.host.service import test_wiring
from tests.unit.host import with_host


class StartTest(test_wiring.ConfTestCase):
    def make(self) -> wiring.HostService:
        return wiring.HostService(
            self.read(test_wiring.NO_PLACEMENT + test_wiring.HOST),
            host='host1',
            node=with_host.NODE,
            state_path=self.folder,
            compute=with_host.COMPUTE,
        )

    def test_a_host_does_not_start_in_the_middle_of_a_hand_over(self) -> None:
        ledger = os.path.join(self.folder, 'host1.sqlite')
        progress = journal.Progress(
            source='rmd', target='resctrl', phase=journal.Phase.APPLYING
        )
        journal.HandoverJournal(ledger).write(progress)

        for _ in range(2):
            # And it leaves the ledger to the command.
            err = self.assertRaises(exception.InvalidConfiguration, self.make)
            self.assertIn(journal.COMMAND, str(err))

        journal.HandoverJournal(ledger).remove()
        self.make().stop()

    def test_nor_as_it_was_before_one(self) -> None:
        ledger = journal.HandoverJournal(
            os.path.join(self.folder, 'host1.sqlite')
        )
        for source, target in (('fake', 'other'), ('other', 'fake')):
            ledger.write(
                journal.Progress(
                    source=source, target=target, phase=journal.Phase.DONE
                )
            )
            if source == 'fake':
                self.assertRaises(exception.InvalidConfiguration, self.make)

        made = self.make()
        # Whatever goes wrong until it runs may be followed by going back.
        self.assertIsNotNone(ledger.read())
        made.start()
        made.stop()

        self.assertIsNone(ledger.read())
