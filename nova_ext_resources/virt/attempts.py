# SPDX-License-Identifier: Apache-2.0

"""Which live migration of a server has claimed on this host.

Nova accepts the next live migration of a server while a host may still be busy
with the former one: with its check, its preparation, or its rollback. When
that ends late, it must not touch what the next one has claimed, or what the
server runs with that has come by now.

All of this is lost with the process. Then the comparison with Nova releases
what a migration has left here.
"""

from collections.abc import Iterator
import contextlib
import threading


class Attempts:
    """Threads of Nova change it, one item at a time.

    Migrations are known by Nova's number, which is larger for a later one.
    """

    def __init__(self) -> None:
        # Server -> migration.
        self._claimed: dict[str, int] = {}
        # Two migrations of a server may be undone at once.
        self._thread = threading.local()

    def begin(self, server_uuid: str, migration_id: int) -> None:
        """Note for which migration a server is about to claim."""
        self._claimed[server_uuid] = migration_id

    def end(self, server_uuid: str) -> None:
        """Note that the server has come, or that nothing waits for it."""
        self._claimed.pop(server_uuid, None)

    def find(self, server_uuid: str) -> int | None:
        """Return the migration for which a server has claimed; None: none."""
        return self._claimed.get(server_uuid)

    @contextlib.contextmanager
    def undoing(self, migration_id: int | None) -> Iterator[None]:
        """Surround what undoes a migration to this host, in its thread.

        :param migration_id: None where it is not known
        """
        self._thread.undone = (migration_id,)
        try:
            yield
        finally:
            del self._thread.undone

    def keeps_claim(self, server_uuid: str) -> bool:
        """Return whether this thread undoes a migration without a claim."""
        undone = getattr(self._thread, 'undone', None)
        return undone is not None and (
            None in undone or undone != (self.find(server_uuid),)
        )
