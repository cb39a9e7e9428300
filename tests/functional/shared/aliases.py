# SPDX-License-Identifier: Apache-2.0

"""Aliases of placement's tables, made once a process.

Placement makes them anew for each statement, and SQLAlchemy then a column of
each for every column of the table: a tenth of the processor's time, most of it
for the request of one provider by its uuid. An alias never changes.
"""

import functools
from typing import Any

from placement.objects import allocation
from placement.objects import resource_provider
import sqlalchemy


class _Sqlalchemy:
    """The module, but for one function."""

    alias = staticmethod(functools.cache(sqlalchemy.alias))

    def __getattr__(self, name: str) -> Any:
        return getattr(sqlalchemy, name)


def install() -> None:
    """Make each alias once."""
    made = _Sqlalchemy()
    for module in (allocation, resource_provider):
        module.sa = made
