# SPDX-License-Identifier: Apache-2.0

"""Remembers the last consumers that something has happened to."""

from collections.abc import Iterator

#: How many are remembered. Far more than can be released in the time by which
#: a host, or an answer of Nova, may be late.
_MAX = 1024


class Recent:
    """Uuids, the oldest first, which is forgotten first. Shared by threads."""

    def __init__(self) -> None:
        # A dict for its order.
        self._uuids: dict[str, None] = {}

    def __contains__(self, consumer_uuid: object) -> bool:
        return consumer_uuid in self._uuids

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._uuids))

    def __len__(self) -> int:
        return len(self._uuids)

    def add(self, consumer_uuid: str) -> None:
        self.discard(consumer_uuid)
        self._uuids[consumer_uuid] = None
        for oldest in tuple(self)[:-_MAX]:
            # Another thread may have forgotten it already.
            self.discard(oldest)

    def discard(self, consumer_uuid: str) -> None:
        self._uuids.pop(consumer_uuid, None)
