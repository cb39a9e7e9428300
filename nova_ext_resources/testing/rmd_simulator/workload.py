# SPDX-License-Identifier: Apache-2.0

"""The record of a workload, as it comes in, is kept and goes out."""

from collections.abc import Mapping
import copy
import dataclasses
import json
from typing import Any

from nova_ext_resources.testing.rmd_simulator import binding
from nova_ext_resources.testing.rmd_simulator import gojson

REST = 'REST'
OPENSTACK = 'OPENSTACK'


@dataclasses.dataclass(slots=True, kw_only=True)
class Record:
    """One workload; None stands for a value that is absent."""

    id: str = ''
    core_ids: list[str] = dataclasses.field(default_factory=list)
    task_ids: list[str] = dataclasses.field(default_factory=list)
    policy: str = ''
    status: str = ''
    cos_name: str = ''
    cache_max: int | None = None
    cache_min: int | None = None
    percentage: int | None = None
    mbps: int | None = None
    plugins: dict[str, dict[str, Any]] = dataclasses.field(
        default_factory=dict
    )
    uuid: str = ''
    origin: str = ''

    @property
    def has_cache(self) -> bool:
        """Whether both limits are given."""
        return self.cache_max is not None and self.cache_min is not None

    @property
    def has_bandwidth(self) -> bool:
        """Whether there is a limit in some unit."""
        return self.percentage is not None or self.mbps is not None

    @property
    def bandwidth(self) -> int | None:
        """The limit, whatever its unit."""
        return self.percentage if self.mbps is None else self.mbps

    def copy(self) -> 'Record':
        """Return a copy that can be changed."""
        return copy.deepcopy(self)

    def as_stored(self) -> 'Record':
        """Give it as it is after a write to the database and back."""
        stored = self.copy()
        stored.plugins = gojson.through_database(stored.plugins)
        return stored

    def to_body(self) -> dict[str, Any]:
        """Return the fields in RMD's order, empty ones left out."""
        body: dict[str, Any] = {
            'id': self.id,
            'core_ids': self.core_ids,
            'task_ids': self.task_ids,
            'policy': self.policy,
        }
        body = {key: value for key, value in body.items() if value}
        body['status'] = self.status
        body['cos_name'] = self.cos_name
        body['rdt'] = {
            'cache': _present(max=self.cache_max, min=self.cache_min),
            'mba': _present(percentage=self.percentage, mbps=self.mbps),
        }
        if self.plugins:
            body['plugins'] = gojson.sort_map(self.plugins)
        if self.uuid:
            body['uuid'] = self.uuid
        body['origin'] = self.origin
        return body


def _present(**values: int | None) -> dict[str, int]:
    return {key: value for key, value in values.items() if value is not None}


def from_body(data: Any) -> tuple[Record, str]:
    """Read a request: what could be read of it, and Go's complaint."""
    binder = binding.Binder('UserRDTWorkLoad')
    binder.root(data, 'types.UserRDTWorkLoad')
    rdt = binder.section(data, 'rdt')
    cache = binder.section(rdt, 'cache')
    mba = binder.section(rdt, 'mba')
    record = Record(
        id=binder.text(data, 'id'),
        core_ids=binder.texts(data, 'core_ids'),
        task_ids=binder.texts(data, 'task_ids'),
        policy=binder.text(data, 'policy'),
        status=binder.text(data, 'status'),
        cos_name=binder.text(data, 'cos_name'),
        cache_max=binder.number(cache, 'max'),
        cache_min=binder.number(cache, 'min'),
        percentage=binder.number(mba, 'percentage'),
        mbps=binder.number(mba, 'mbps'),
        plugins=binder.plugins(data, 'plugins'),
        uuid=binder.text(data, 'uuid'),
        origin=binder.text(data, 'origin'),
    )
    return record, binder.complaint


def from_stored(data: Mapping[str, Any]) -> Record:
    """Read what ``to_body`` wrote to a file."""
    # The binder knows numbers only as the daemon's own decoder gives them.
    record, _complaint = from_body(gojson.decode(json.dumps(data)))
    return record
