# SPDX-License-Identifier: Apache-2.0

"""Consumers of placement that hold room for servers that are planned.

Where Nova's scheduler does not know what is promised, such a consumer keeps
others out. It is no server: Nova knows nothing of it.
"""

from collections.abc import Mapping
import uuid

#: As placement shows it; a server of Nova has ``INSTANCE`` or none.
CONSUMER_TYPE = 'NOVA_EXT_RESERVATION'

#: The project of all of them, so that one question counts them, and none of
#: them counts against a quota of Nova. Their user is the project that has
#: reserved.
PROJECT = 'nova-ext-reservations'

_NAMESPACE = uuid.UUID('5f2d7a0e-6c41-4f0b-9d3a-1b8e4c75a962')


def make_consumer(key: str) -> str:
    """Return the uuid of what holds the room of a planned server.

    It stays the same when the server is planned on another host.

    :param key: of the planned server
    """
    return str(uuid.uuid5(_NAMESPACE, key))


def may_be_hold(consumer_uuid: str) -> bool:
    """Return whether to ask placement for the type of a consumer.

    The uuids of Nova's servers and migrations are random.
    """
    return uuid.UUID(consumer_uuid).version == 5


def leave_out(amounts: Mapping[str, int]) -> dict[str, int]:
    """Return what consumers have of something, without those of this kind."""
    return {
        consumer: amount
        for consumer, amount in amounts.items()
        if not may_be_hold(consumer)
    }
