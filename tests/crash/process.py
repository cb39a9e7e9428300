# SPDX-License-Identifier: Apache-2.0

"""The process of a nova-compute, from outside."""

import os
import sys
import threading
from typing import Any, TYPE_CHECKING

from tests.crash import bus
from tests.crash import patience
from tests.crash import steps

if TYPE_CHECKING:
    from tests.crash import site as site_mod


class Compute:
    """The nova-compute of one host, which may be dead."""

    def __init__(self, site: 'site_mod.Site', host: str) -> None:
        self.host = host
        self.folder = site.folder.lib / host
        self.folder.mkdir()
        self._site = site
        self._numbers = iter(range(1, sys.maxsize))
        self.pid = 0
        self.starts = 0
        self._compared_starts = 0

    @property
    def is_running(self) -> bool:
        return bool(self.pid) and os.path.exists(f'/proc/{self.pid}')

    def start(self) -> None:
        """Start it; does not wait."""
        self.pid = self._site.fork(self.host, self.folder)
        self.starts += 1

    def wait(self) -> None:
        """Wait until it has compared its host with Nova."""
        self.ask('wait', patience.PATIENCE)

    @property
    def has_died(self) -> bool:
        """Return whether it was started since all was compared."""
        return self.starts != self._compared_starts

    def note_compared(self) -> None:
        """Note that all is compared now."""
        self._compared_starts = self.starts

    def kill(self) -> None:
        if self.is_running:
            os.kill(self.pid, 9)
            patience.wait_until(lambda: not self.is_running, 'the kill')

    def ask(self, command: str, seconds: float = patience.PATIENCE) -> Any:
        """Have it do something.

        :raises Ended: it has ended
        :raises Died: it did not do it
        """
        box: list[Any] = []
        asking = threading.Thread(
            target=self._ask, args=(command, seconds, box)
        )
        asking.start()
        while asking.is_alive():
            asking.join(0.1)
            if not self.is_running:
                raise patience.Ended(f'{self.host} has ended: {self._tail()}')
        if isinstance(box[0], Exception):
            raise patience.Died(f'{self.host} cannot {command}: {box[0]!r}')
        return box[0]

    def _ask(self, command: str, seconds: float, box: list[Any]) -> None:
        try:
            box.append(
                self._site.broker.send(
                    ('crash', self.host),
                    command,
                    timeout=seconds,
                    is_call=True,
                )
            )
        except bus.NoReply as err:
            box.append(err)

    def _tail(self) -> str:
        text = (self.folder / 'compute.out').read_text(errors='replace')
        return text[-1500:]

    # -- its steps -----------------------------------------------------------

    def plan(self, plan: steps.Plan | None) -> None:
        """Have it kill itself; None: no longer."""
        path = self.folder / 'plan'
        if plan is None:
            path.unlink(missing_ok=True)
            return
        fresh = path.with_suffix('.new')
        number = next(self._numbers)
        fresh.write_text(
            steps.Plan(
                name=plan.name,
                phase=plan.phase,
                count=plan.count,
                number=number,
            ).to_text()
        )
        fresh.rename(path)

    def find_end(self) -> int:
        """Return how long the trace is now."""
        path = self.folder / 'trace'
        return path.stat().st_size if path.exists() else 0

    def read_steps(self, begin: int) -> list[tuple[str, str]]:
        """Return phase and name of each step since then."""
        with (self.folder / 'trace').open() as file:
            file.seek(begin)
            lines = file.read().splitlines()
        return [(one.split('|')[0], one.split('|')[1]) for one in lines]
