# SPDX-License-Identifier: Apache-2.0

"""The one folder that everything of a cloud lives in."""

import dataclasses
import pathlib
import tempfile
from typing import Self

from dev.cloud import mounts

#: The name of the cloud in clouds.yaml.
CLOUD = 'ext-resources-demo'

_PARTS = (
    'etc',
    'etc/hosts',
    'log',
    'lib/nova',
    'lib/providers',
    'lib/images',
    'lib/staging',
    'lib/tasks',
    'lib/locks',
)


@dataclasses.dataclass(frozen=True, slots=True)
class Folder:
    """Paths under ``root``; :meth:`create` makes it, :meth:`remove` ends it.

    :ivar root: the folder itself
    """

    root: pathlib.Path

    @classmethod
    def create(cls) -> Self:
        """Make a new, private, empty folder where temporary files go."""
        root = pathlib.Path(tempfile.mkdtemp(prefix='ext-resources-cloud-'))
        folder = cls(root)
        for part in _PARTS:
            (root / part).mkdir(parents=True)
        return folder

    def remove(self) -> None:
        """Delete the folder with all that is in it; twice is once."""
        mounts.remove(str(self.root))

    @property
    def etc(self) -> pathlib.Path:
        """Configuration files."""
        return self.root / 'etc'

    @property
    def hosts(self) -> pathlib.Path:
        """One configuration file for each compute host."""
        return self.root / 'etc' / 'hosts'

    @property
    def log(self) -> pathlib.Path:
        """Logs of the services and what the processes print."""
        return self.root / 'log'

    @property
    def lib(self) -> pathlib.Path:
        """Databases, images and other state."""
        return self.root / 'lib'

    @property
    def nova_log(self) -> pathlib.Path:
        """The log of placement and of all of Nova's services."""
        return self.log / 'nova.log'

    @property
    def glance_log(self) -> pathlib.Path:
        """The log of glance."""
        return self.log / 'glance.log'

    def get_ledger(self, host: str) -> pathlib.Path:
        """Return the ledger of a host."""
        return self.lib / f'{host}-ledger.sqlite'

    @property
    def clouds_yaml(self) -> pathlib.Path:
        """What openstacksdk and the ``openstack`` CLI read."""
        return self.root / 'clouds.yaml'
