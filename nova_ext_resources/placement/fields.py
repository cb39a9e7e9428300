# SPDX-License-Identifier: Apache-2.0

"""Writes the traits, the aggregates or the inventories of one provider."""

from collections.abc import Callable, Iterable, Iterator
import contextlib
import dataclasses
from typing import Any

from nova_ext_resources import exception
from nova_ext_resources.objects import provider as provider_obj
from nova_ext_resources.placement import changes
from nova_ext_resources.placement import client as placement_client


class FieldWriter:
    """Creates custom names before they are used, once in this process."""

    def __init__(self, client: placement_client.Client) -> None:
        self._setters: dict[str, Callable[[str, Any, int], int]] = {
            'traits': client.set_traits,
            'aggregates': client.set_aggregates,
            'inventories': client.set_inventories,
        }
        self._creators: dict[str, Callable[[str], None]] = {
            'traits': client.ensure_trait,
            'inventories': client.ensure_resource_class,
        }
        self._known: set[tuple[str, str]] = set()

    def forget_names(self) -> None:
        """Create all names again: one may have been deleted."""
        self._known.clear()

    def write(
        self, change: changes.Replace, seen: provider_obj.Provider
    ) -> provider_obj.Provider:
        """Write one field; return the provider as it is then.

        :raises ConcurrentUpdate: other software was faster
        """
        with as_conflict(seen.name):
            if change.field in self._creators:
                self._create_names(change.field, change.content)
            generation = self._setters[change.field](
                seen.rp_uuid, change.content, seen.generation or 0
            )
        return dataclasses.replace(
            seen, generation=generation, **{change.field: change.content}
        )

    def _create_names(self, field: str, names: Iterable[str]) -> None:
        for name in sorted(names):
            # Classes and traits can have the same name.
            if name.startswith('CUSTOM_') and (field, name) not in self._known:
                self._creators[field](name)
                self._known.add((field, name))


@contextlib.contextmanager
def as_conflict(name: str) -> Iterator[None]:
    """Treat a provider that is gone as any other change by other software.

    :raises ConcurrentUpdate: instead of ``NotFound``
    """
    try:
        yield
    except exception.NotFound as err:
        raise exception.ConcurrentUpdate(
            action=f'write provider {name}',
            status=err.status,
            code=err.code,
            detail=err.detail,
            request_id=err.request_id,
        ) from err
