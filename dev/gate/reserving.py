# SPDX-License-Identifier: Apache-2.0

"""A site whose nova-scheduler keeps what is reserved, in MariaDB."""

import dataclasses
import pathlib

from dev.cloud import options
from dev.cloud import reservations
from dev.cloud import settings as cloud_settings
from dev.gate import site as sites

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
    def commands(self) -> reservations.Reservations:
        """The commands of reservations."""
        folder = self.site.cloud.folder
        files = folder.etc / 'nova.conf', _get_path(self.site)
        return reservations.Reservations(folder, files)


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
        store.commands.order('list')
        site.cloud.reconfigure(
            'nova-scheduler', options.merge(store.own, reservations.SCHEDULER)
        )
    return store


def _get_path(site: sites.Site) -> pathlib.Path:
    return site.cloud.folder.etc / 'reservations.conf'
