# SPDX-License-Identifier: Apache-2.0

"""The commands and the manager of reservations."""

from collections.abc import Iterable
import json
import os
import pathlib
from typing import Any

from cloud import child
from cloud import commands
from cloud import extended
from cloud import folder as folders
from cloud import programs
from cloud import settings as cloud_settings

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

    def make_manager(self) -> child.Child:
        """Return nova-ext-resources-reservations, not started yet."""
        return child.Child(
            'reservations',
            programs.get('nova-ext-resources-reservations'),
            self._files,
            folder=self._folder,
        )

    def _complete(self, words: Iterable[str]) -> list[str]:
        return ['extended', 'reservation', *words, *self._files]


def _name(file: pathlib.Path) -> tuple[str, str]:
    return '--config-file', os.fspath(file)
