# SPDX-License-Identifier: Apache-2.0

"""The ledger of a host, read without disturbing its owner."""

from collections.abc import Mapping
import contextlib
import dataclasses
import json
import pathlib
import sqlite3
from typing import Any

_QUERY = (
    'SELECT consumer_uuid, rp_uuid, rp_key, resource_class, amount, units, '
    'is_allocated FROM assignment ORDER BY consumer_uuid, rp_key'
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Assigned:
    """One row of a ledger.

    :ivar rp_key: which provider of the host, such as ``L3_0``
    :ivar is_allocated: whether placement has an allocation for it
    :ivar units: the concrete units, such as ``{'mask': '1e'}``
    """

    consumer_uuid: str
    rp_uuid: str
    rp_key: str
    resource_class: str
    amount: int
    units: Mapping[str, Any]
    is_allocated: bool


def read(path: pathlib.Path) -> tuple[Assigned, ...]:
    """Return all rows of a host's ledger, without disturbing its owner."""
    uri = f'{path.as_uri()}?mode=ro'
    with contextlib.closing(sqlite3.connect(uri, uri=True)) as ledger:
        rows = ledger.execute(_QUERY).fetchall()
    return tuple(
        Assigned(
            consumer_uuid=consumer_uuid,
            rp_uuid=rp_uuid,
            rp_key=rp_key,
            resource_class=resource_class,
            amount=amount,
            units=json.loads(units),
            is_allocated=bool(is_allocated),
        )
        for (
            consumer_uuid,
            rp_uuid,
            rp_key,
            resource_class,
            amount,
            units,
            is_allocated,
        ) in rows
    )
