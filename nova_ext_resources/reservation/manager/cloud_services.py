# SPDX-License-Identifier: Apache-2.0

"""What a manager needs of the cloud around."""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Protocol

from nova_ext_resources.objects import host_view
from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation import nova_server
from nova_ext_resources.reservation.store import admission
from nova_ext_resources.reservation.store import databases


class Cloud(Protocol):
    """Placement, and the Compute API with the rights of an administrator.

    Each method may raise ``PlacementError``, ``ComputeUnavailable`` or
    ``InvalidConfiguration``.
    """

    def has_allocations(self, consumer: str) -> bool:
        """Return whether a consumer has any in placement."""

    def list_held(self, consumer: str) -> Set[str]:
        """Return the uuids of providers that a consumer has allocations of."""

    def list_enabled(self) -> Mapping[str, bool]:
        """Return name of each host -> whether its compute is enabled."""

    def find_gone(self, rp_uuids: Set[str]) -> Set[str]:
        """Return which providers placement does not have."""

    def list_down(self) -> Set[str]:
        """Return the hosts whose compute does not report."""

    def read_uses(self, rp_uuids: Iterable[str]) -> lending.Uses:
        """Return what there is of providers, and who holds it.

        Providers that are gone are left out.
        """

    def find_server(self, uuid: str) -> nova_server.NovaServer | None:
        """Return a server of Nova; None if there is none."""

    def find_missing_right(self) -> str:
        """Return why Nova does not show all servers; '' if it does."""

    def act(self, uuid: str, action: nova_server.Action) -> None:
        """Ask Nova to do something with a server, and do not wait for it."""

    def set_metadata(self, uuid: str, metadata: Mapping[str, str]) -> None:
        """Add metadata to a server, which its owner sees."""

    def take_hold(
        self,
        consumer: str,
        project: str,
        places: Mapping[host_view.Place, int],
    ) -> None:
        """Have a consumer hold places, and nothing else.

        :param consumer: of :func:`.planned_hold.make_consumer`
        :raises AllocationRejected: they do not fit, and it holds nothing
        """

    def release_hold(self, consumer: str) -> None:
        """Have a consumer hold nothing."""

    def count_holds(self) -> int:
        """Return how many consumers hold places for planned servers."""

    def list_holds(self) -> Set[str]:
        """Return these. It takes a request for each provider."""

    def list_servers(self, project: str) -> Sequence[nova_server.NovaServer]:
        """Return the servers of a project."""

    def unshelve(self, uuid: str, node: str) -> None:
        """Ask Nova to unshelve a server on a host, and do not wait for it."""

    def make_admission(
        self, database: databases.Database
    ) -> admission.Admission:
        """Read all hosts; return what can plan on them."""
