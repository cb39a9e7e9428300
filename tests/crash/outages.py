# SPDX-License-Identifier: Apache-2.0

"""What goes away at bad moments, and comes back."""

import contextlib
import subprocess
from typing import Protocol

from tests.crash import site as site_mod

#: Of the file system of each ledger, in KiB: SQLite's journal may have 4 MiB.
_DISK = 8192

#: With how much at a time it is filled, in bytes, the last bytes as well.
_PIECES = (1 << 16, 1 << 9)


class Outage(Protocol):
    """Something that can be taken away."""

    name: str

    def begin(self) -> None: ...

    def end(self) -> None: ...


class Placement:
    """Placement answers 503."""

    name = 'placement'

    def __init__(self, site: site_mod.Site) -> None:
        self._site = site

    def begin(self) -> None:
        self._site.placement.is_away = True

    def end(self) -> None:
        self._site.placement.is_away = False


class Rmd:
    """RMD of both hosts refuses connections."""

    name = 'RMD'

    def __init__(self, site: site_mod.Site) -> None:
        self._rmds = [one.simulator for one in site.rmds.values()]

    def begin(self) -> None:
        for one in self._rmds:
            one.refuse_connections()

    def end(self) -> None:
        for one in self._rmds:
            one.accept_connections()


class Database:
    """No transaction of Nova's databases begins."""

    name = 'database'

    def __init__(self, site: site_mod.Site) -> None:
        self._site = site

    def begin(self) -> None:
        self._site.database.is_away = True

    def end(self) -> None:
        self._site.database.is_away = False


class Bus:
    """The message bus takes and gives nothing."""

    name = 'message bus'

    def __init__(self, site: site_mod.Site) -> None:
        self._site = site

    def begin(self) -> None:
        self._site.broker.go_away()

    def end(self) -> None:
        self._site.broker.go_away(False)


class Disk:
    """The file systems of both ledgers are full."""

    name = 'disk of the ledger'

    def __init__(self, site: site_mod.Site) -> None:
        self._ballast = [site.find_disk(h) / 'ballast' for h in site_mod.HOSTS]

    def begin(self) -> None:
        for path in self._ballast:
            with path.open('wb', buffering=0) as file:
                for size in _PIECES:
                    with contextlib.suppress(OSError):
                        while file.write(b'x' * size):
                            pass

    def end(self) -> None:
        for path in self._ballast:
            path.unlink(missing_ok=True)


def mount_disk(path: str) -> None:
    """Mount a small file system; only root can.

    :raises CalledProcessError: it cannot be mounted
    """
    subprocess.run(
        ['mount', '-t', 'tmpfs', '-o', f'size={_DISK}k', 'ledger', path],
        check=True,
    )


def list_all(site: site_mod.Site) -> list[Outage]:
    """Return all that can be taken away on this machine."""
    made: list[Outage] = [
        Placement(site),
        Rmd(site),
        Database(site),
        Bus(site),
    ]
    if site.has_disks:
        made.append(Disk(site))
    return made
