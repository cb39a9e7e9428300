# SPDX-License-Identifier: Apache-2.0

"""Pools of storage or licences that belong to no host."""

from collections.abc import Mapping
import dataclasses
import datetime
from typing import Any
import uuid

from nova_ext_resources.objects import host_provider

#: What others than servers use of a pool whose source says what is free: all
#: that is not free; all that is neither free nor allocated; or what the
#: operator reserves, and nothing else.
OTHERS_USE = NOT_FREE, NOT_ALLOCATED, RESERVED = (
    'not_free',
    'not_allocated',
    'reserved',
)

#: Seed of all uuids of pools. With another one, every pool in placement would
#: be made a second time.
NAMESPACE = uuid.UUID('6b5a6d3e-3f0c-5f3a-9d7c-52b6c3a0f1d4')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How much a pool has, as its source says, in units of its inventory.

    :ivar free: units that no user of the pool has; None where the source does
        not say it
    :ivar reserved: units that others than servers use; None likewise. At most
        one of both is known.
    :ivar read_at: aware, UTC; of a document, when it was written
    :ivar undated: why that is not known, and ``read_at`` is when the source
        was asked; '' otherwise
    :raises ValueError: these are not numbers of one pool
    """

    total: int
    free: int | None = None
    reserved: int | None = None
    read_at: datetime.datetime = dataclasses.field(compare=False)
    undated: str = dataclasses.field(default='', compare=False)

    def __post_init__(self) -> None:
        if self.total < 1:
            raise ValueError(f'the total is {self.total}, less than 1 unit')
        for name in ('free', 'reserved'):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= self.total:
                raise ValueError(
                    f'{name} is {value}, but must be from 0 to the total '
                    f'{self.total}'
                )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SharedPool:
    """One pool as a host sees it. Its name is the same on all hosts.

    :ivar rules: fields of its inventory that an operator has set;
        ``reserved`` is added to what others use
    :ivar others_use: one of :data:`OTHERS_USE`
    :ivar min_free_percent: of the total; less is reported, with ``reserved``
    :ivar traits: without the owner trait and the sharing one
    :ivar is_read: whether this host reads it; otherwise it only reaches it
    :ivar reading: the last good one; None: none since the start
    :ivar is_failing: whether there should be a newer one
    """

    name: str
    resource_class: str
    rules: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    others_use: str = NOT_FREE
    min_free_percent: int = 10
    traits: frozenset[str] = frozenset()
    is_read: bool = True
    reading: Reading | None = None
    is_failing: bool = False

    @property
    def rp_uuid(self) -> str:
        """Return the uuid of the sharing provider."""
        return make_rp_uuid(self.name)

    @property
    def rp_name(self) -> str:
        return make_key(self.name)

    @property
    def all_traits(self) -> frozenset[str]:
        return self.traits | {
            host_provider.OWNER_TRAIT,
            host_provider.SHARING_TRAIT,
        }

    @property
    def aggregate_uuid(self) -> str:
        return make_aggregate_uuid(self.rp_uuid)


def make_key(name: str) -> str:
    """Return the key of the provider that ties a host to a pool."""
    return f'POOL_{name}'


def is_pool(one: host_provider.Provider) -> bool:
    """Return whether a provider is the sharing one of a pool."""
    name = one.name.removeprefix(make_key(''))
    return one.parent_uuid is None and one.rp_uuid == make_rp_uuid(name)


def make_aggregate_uuid(rp_uuid: str) -> str:
    """Return the aggregate of a sharing provider and the hosts that reach it.

    Each host adds and removes only itself.
    """
    return str(uuid.uuid5(NAMESPACE, f'aggregate {rp_uuid}'))


def make_rp_uuid(name: str) -> str:
    """Return the uuid of the sharing provider of a pool."""
    return str(uuid.uuid5(NAMESPACE, name))
