# SPDX-License-Identifier: Apache-2.0

"""The commands and the manager of reservations."""

from collections.abc import Iterable, Iterator
import contextlib
import datetime
import json
import os
import pathlib
import time
from typing import Any

from dev.cloud import child
from dev.cloud import commands
from dev.cloud import extended
from dev.cloud import folder as folders
from dev.cloud import programs
from dev.cloud import settings as cloud_settings
from dev.cloud import told

#: Scheduler hint that names the reservation of a server.
HINT = 'nova_ext:reservation'

_FORMER = extended.NOVA['filter_scheduler']['enabled_filters']

#: What has nova-scheduler keep what is reserved.
SCHEDULER: cloud_settings.Options = {
    'filter_scheduler': {'enabled_filters': f'{_FORMER},ReservationFilter'}
}


class Reservations:
    """Orders and looks at reservations, as an operator does.

    :param files: configuration files, which name database and credentials
    """

    def __init__(
        self, folder: folders.Folder, files: Iterable[pathlib.Path]
    ) -> None:
        self._folder = folder
        self._files = [word for one in files for word in _name(one)]

    def order(self, *words: str) -> Any:
        """Run a command; return what it shows.

        :raises NotAsTold: it fails
        """
        return json.loads(
            commands.run(self._folder, *self._complete(words), '-f', 'json')
        )

    def order_in_vain(self, *words: str) -> str:
        """Run a command that must be refused; return the reason.

        :raises NotAsTold: it succeeds
        """
        return commands.run_in_vain(self._folder, *self._complete(words))

    def draw(self, *words: str) -> list[str]:
        """Return the lines of a calendar.

        :raises NotAsTold: there is none
        """
        asked = self._complete(('calendar', *words))
        return commands.run(self._folder, *asked).splitlines()

    def survey(self, flavor: str, duration: str) -> tuple[int, float]:
        """Look at the time from now on.

        :returns: how many servers of a flavor fit, and the seconds that the
            command took, which are more where the machine is busy
        :raises NotAsTold: less than three fit
        """
        began = time.monotonic()
        rows = self.order(
            *('capacity', '--flavor', flavor, '--duration', duration)
        )
        took = time.monotonic() - began
        count = min(int(one['Servers']) for one in rows)
        told.expect(count > 2, f'several servers of {flavor} fit', count)
        return count, took

    @contextlib.contextmanager
    def managed(self, *, seconds: float) -> Iterator[child.Child]:
        """Run the manager of reservations; does not wait until it works.

        :param seconds: how long it may take to end
        :raises ChildFailed: it ended by itself
        """
        manager = child.Child(
            'reservations',
            programs.get('nova-ext-resources-reservations'),
            self._files,
            folder=self._folder,
        )
        try:
            manager.start()
            yield manager
            manager.check()
        finally:
            manager.stop(seconds=seconds)

    def _complete(self, words: Iterable[str]) -> list[str]:
        return ['extended', 'reservation', *words, *self._files]


def count_seconds(text: str) -> float:
    """Return the seconds until a time that a command or an API has shown."""
    return datetime.datetime.fromisoformat(text).timestamp() - time.time()


def _name(file: pathlib.Path) -> tuple[str, str]:
    return '--config-file', os.fspath(file)
