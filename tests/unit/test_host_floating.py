# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

import os
import signal
import threading
import time

from oslo_utils.fixture import uuidsentinel

from tests.unit import floating
from tests.unit import guests

SERVER = uuidsentinel.server


class FloatingHostTest(floating.FloatingCases):
    def test_who_ends_while_he_is_moved_is_a_success(self) -> None:
        for pause in (0, 1, 2, 5, 10):
            with self.subTest(pause=pause):
                guest = guests.Guest(SERVER, 32)
                guest.setUp()
                timer = end_after(pause / 1000, guest.pid)

                self.start_floating()

                timer.join()
                guest.end()
                self.host.release(SERVER)

    def test_128_threads_are_assigned_in_time(self) -> None:
        guest = self.run_guest(threads=128)
        spent = []
        for _ in range(5):
            begun = time.process_time()
            self.start_floating()
            spent.append(time.process_time() - begun)
            self.assert_inside(guest)
            self.host.release(SERVER)

        # The test kernel's own work is in it, too.
        self.assertLess(min(spent), 0.05)


def end_after(seconds: float, pid: int) -> threading.Timer:
    timer = threading.Timer(seconds, os.kill, (pid, signal.SIGKILL))
    timer.start()
    return timer
