# SPDX-License-Identifier: Apache-2.0

"""Nova that takes its time after each record: finds tests that do not wait."""

import functools
import os
import threading
import time
from typing import Any

import fixtures
from nova import objects

#: Seconds; of the environment.
_VARIABLE = 'NOVA_DELAY'


class SlowNova(fixtures.Fixture):
    """Its threads sleep when they have recorded a server or a migration.

    What they do next comes later, as on a machine that is busy.
    """

    def _setUp(self) -> None:
        seconds = float(os.environ.get(_VARIABLE) or 0)
        if not seconds:
            return
        for owner in (objects.Instance, objects.Migration):
            for name in ('save', 'destroy'):
                self._delay(owner, name, seconds)

    def _delay(self, owner: Any, name: str, seconds: float) -> None:
        record = getattr(owner, name, None)
        if record is None:
            return

        @functools.wraps(record)
        def record_slowly(*args: Any, **kwargs: Any) -> Any:
            made = record(*args, **kwargs)
            if threading.current_thread() is not threading.main_thread():
                time.sleep(seconds)
            return made

        self.useFixture(fixtures.MockPatchObject(owner, name, record_slowly))
