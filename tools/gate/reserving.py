# SPDX-License-Identifier: Apache-2.0

"""A site whose nova-scheduler keeps what is reserved, in MariaDB."""

from collections.abc import Iterator
import contextlib
import dataclasses
import datetime
import pathlib
import time
from typing import Any

from cloud import options
from cloud import reservations
from cloud import settings as cloud_settings
from cloud import told
from tools.gate import site as sites

_DATABASE = 'reservations'

#: Seconds between two passes of the manager.
_INTERVAL = '5'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Store:
    """The reservations of the site, as an operator orders them.

    :ivar own: options that name the database
    """

    site: sites.Site
    own: cloud_settings.Options

    @property
    def _commands(self) -> reservations.Reservations:
        folder = self.site.cloud.folder
        files = folder.etc / 'nova.conf', _get_path(self.site)
        return reservations.Reservations(folder, files)

    def order(self, *words: str) -> Any:
        """Run a command of the reservations; return what it shows.

        :raises NotAsTold: it fails
        """
        return self._commands.order(*words)

    def survey(self, flavor: str) -> tuple[int, float]:
        """Look at the next hour.

        :returns: how many servers of a flavor fit, and the seconds that the
            command took, which are more where the machine is busy
        :raises NotAsTold: less than three fit
        """
        began = time.monotonic()
        words = ('capacity', '--flavor', flavor, '--duration', '1h')
        count = min(int(one['Servers']) for one in self.order(*words))
        took = time.monotonic() - began
        told.expect(count > 2, f'several servers of {flavor} fit', count)
        return count, took

    @contextlib.contextmanager
    def managed(self) -> Iterator[None]:
        """Run the manager of reservations.

        :raises ChildFailed: it ended by itself
        """
        manager = self._commands.make_manager()
        try:
            manager.start()
            yield
            manager.check()
        finally:
            manager.stop(seconds=self.site.cloud.stop_seconds)


def open_store(site: sites.Site) -> Store:
    """Have nova-scheduler keep what is reserved in a database of MariaDB.

    It goes on with that: what needs it is played last.
    """
    group = {
        'connection': site.cloud.ensure_database(_DATABASE),
        'interval': _INTERVAL,
        # Before that no borrower is told to go.
        'clock_wait': '0',
    }
    store = Store(site=site, own={'ext_resources_reservation': group})
    path = _get_path(site)
    if not path.exists():
        path.write_text(options.render(store.own))
        # The first command makes the tables.
        store.order('list')
        site.cloud.reconfigure(
            'nova-scheduler', options.merge(store.own, reservations.SCHEDULER)
        )
    return store


def count_seconds(text: str) -> float:
    """Return the seconds until a time that a command or an API has shown."""
    return datetime.datetime.fromisoformat(text).timestamp() - time.time()


def _get_path(site: sites.Site) -> pathlib.Path:
    return site.cloud.folder.etc / 'reservations.conf'
