# SPDX-License-Identifier: Apache-2.0

"""What the story asks of the machine of a compute host."""

import abc
from collections.abc import Mapping
import dataclasses

from dev.cloud import child
from dev.cloud import folder as folders
from dev.cloud import settings as cloud_settings


_READY_SECONDS = 30.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """What every machine pretends to be.

    :ivar ways: ways of each socket's cache
    :ivar closids: classes of service, the default one among them
    """

    sockets: int = 2
    cpus: int = 48
    ways: int = 11
    closids: int = 5


HARDWARE = Hardware()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InForce:
    """What a machine really gives one server.

    :ivar name: of its control group
    :ivar ways: how many ways it has for itself
    :ivar schemata: the ways that it may fill, as the kernel writes them
    """

    name: str
    ways: int
    schemata: str


class Machine(abc.ABC):
    """A process that can be taken away and brought back.

    :cvar backend: what manages the cache, as in ``nova.conf``
    :cvar manager: what manages the cache, for people
    :cvar loss: what happens when it is taken away
    :ivar host: the compute host that it belongs to
    """

    backend: str
    manager: str
    loss: str

    def __init__(
        self,
        host: str,
        folder: folders.Folder,
        hardware: Hardware = HARDWARE,
    ) -> None:
        self.host = host
        self._folder = folder
        self._hardware = hardware
        self._child = self._make_child()

    def start(self) -> None:
        """Start it, with what it had before; does not wait.

        :raises CloudError: this machine cannot have it
        """
        self._child = self._make_child()
        self._child.start()

    def wait(self) -> None:
        """Wait until it can be used.

        :raises CloudError: it ended, or never got ready
        """
        self._child.wait_until(self._is_ready, seconds=_READY_SECONDS)

    def kill(self) -> None:
        """Take it away as a crash would."""
        self._child.kill()

    def stop(self) -> None:
        """End it in order, whatever state it is in."""
        self._child.stop()

    @abc.abstractmethod
    def _make_child(self) -> child.Child:
        """Return its process, which is not started."""

    @abc.abstractmethod
    def _is_ready(self) -> bool:
        """Return whether it can be used."""

    @abc.abstractmethod
    def options(self) -> cloud_settings.Options:
        """Return what the configuration of its host says of it."""

    @abc.abstractmethod
    def describe(self) -> str:
        """Return a command that shows what is applied."""

    @abc.abstractmethod
    def list_in_force(self) -> Mapping[str, InForce]:
        """Return server -> what it has."""

    @abc.abstractmethod
    def wait_for_look(self) -> None:
        """Wait until its host has just looked at it, where that shows."""

    @abc.abstractmethod
    def take_free_ways(self, name: str) -> None:
        """Let other software take all ways that nobody has."""

    @abc.abstractmethod
    def give_ways_back(self, name: str) -> None:
        """Let other software give them back."""
