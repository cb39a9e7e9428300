# SPDX-License-Identifier: Apache-2.0

"""Writes the traits, the aggregates or the inventories of one provider."""

from collections.abc import Callable, Iterable, Iterator
import contextlib
import dataclasses
from typing import Any

from nova_ext_resources import exception
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.publish import diff


class FieldWriter:
    """Creates custom names before they are used, once in this process.

    Several threads may write where all names were created before: otherwise
    they create the same ones.
    """

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
        self, change: diff.Replace, seen: host_provider.Provider
    ) -> host_provider.Provider:
        """Write one field; return the provider as it is then.

        :raises ConcurrentUpdate: other software was faster
        """
        with as_conflict(seen.name):
            for field, name in self.list_unknown([change]):
                self.create_name(field, name)
            generation = self._setters[change.field](
                seen.rp_uuid, change.content, seen.generation or 0
            )
        return dataclasses.replace(
            seen, generation=generation, **{change.field: change.content}
        )

    def list_unknown(
        self, pending: Iterable[diff.ProviderChange]
    ) -> list[tuple[str, str]]:
        """Return the names that may have to be created before changes.

        :returns: ``traits`` or ``inventories``, and the name of a trait or of
            a resource class, sorted
        """
        names = {
            (change.field, name)
            for change in pending
            if isinstance(change, diff.Replace)
            and change.field in self._creators
            for name in change.content
            if name.startswith('CUSTOM_')
        }
        return sorted(names - self._known)

    def create_name(self, field: str, name: str) -> None:
        """Create a trait or a resource class unless it is there.

        :param field: ``traits`` or ``inventories``
        """
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
