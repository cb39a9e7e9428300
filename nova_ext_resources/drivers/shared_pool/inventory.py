# SPDX-License-Identifier: Apache-2.0

"""Ties this host to pools of storage or licences that it reaches.

The pools themselves are no part of the host. Placement alone counts what
servers have of them: no host can, and no host tests a claim.
"""

from collections.abc import Iterable
import dataclasses
import pathlib
import shlex
import time
from typing import ClassVar, TypeAlias

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.conf.drivers import shared_pool
from nova_ext_resources.conf import values
from nova_ext_resources.drivers import base
from nova_ext_resources.drivers.shared_pool import pool_file
from nova_ext_resources.drivers.shared_pool import readers
from nova_ext_resources.drivers.shared_pool import sources
from nova_ext_resources import log_on_change
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import pool
from nova_ext_resources.objects import resource

LOG = logging.getLogger(__name__)

#: Seconds that a round waits for sources that have just been asked. What
#: comes later is published by the next one.
PATIENCE = 2.0

_Signature: TypeAlias = tuple[int, int, int]


class SharedPoolInventory(base.InventoryProvider):
    """Reports the pools of a YAML file."""

    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = shared_pool.OPTS

    def __init__(
        self,
        options: cfg.ConfigOpts.GroupAttr,
        host: str,
        entries: base.EntriesReader = dict,
    ) -> None:
        super().__init__(options, host, entries)
        self._path = pathlib.Path(options.pools_file)
        self._ceph_command = _split_command(options.ceph_command)
        self._signature: _Signature | None = None
        self._readers: dict[str, readers.PoolReader] = {}
        self._bad: tuple[pool_file.BadPool, ...] = ()
        self._states: dict[str, readers.PoolState] = {}
        self._logged = log_on_change.LogOnChange(f'Host {host}: ')
        option = '[ext_resources_shared_pool] pools_file'
        with values.checked(option, options.pools_file):
            self._read_file()

    @property
    def left_out(self) -> frozenset[str]:
        return frozenset(f'pool {one.name}' for one in self._bad)

    @property
    def misconfigured(self) -> frozenset[str]:
        return self.left_out

    @property
    def pools(self) -> tuple[pool.SharedPool, ...]:
        return tuple(
            dataclasses.replace(
                self._readers[name].definition.pool,
                reading=state.reading,
                is_failing=bool(state.failure),
            )
            for name, state in self._states.items()
        )

    @property
    def problems(self) -> tuple[alarm.Problem, ...]:
        return tuple(
            alarm.Problem(
                alarm=alarm.POOL_NOT_READ,
                subject=name,
                text=_explain(self._readers[name].definition, state),
            )
            for name, state in self._states.items()
            if state.failure
        )

    def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
        # What the host counts: nothing.
        return ()

    def discover(self) -> tuple[host_provider.HostProvider, ...]:
        """Read what is due; report what ties this host to each pool."""
        with base.discovering('shared_pool', ValueError):
            self._read_file()
        for reader in self._readers.values():
            reader.start()
        deadline = time.monotonic() + PATIENCE
        for reader in self._readers.values():
            if reader.is_working:
                reader.wait(deadline)
        self._states = {
            name: one.find_state() for name, one in self._readers.items()
        }
        self._logged.log_new(LOG.error, sorted(map(str, self.problems)))
        return tuple(
            host_provider.HostProvider(
                key=pool.make_key(one.name),
                inventories={},
                aggregates=frozenset({one.aggregate_uuid}),
            )
            for one in self.pools
        )

    def _read_file(self) -> None:
        """Read the file if it has changed.

        :raises ValueError: it cannot be read; nothing has changed
        """
        try:
            found = self._path.stat()
            signature = (found.st_ino, found.st_size, found.st_mtime_ns)
            if signature == self._signature:
                return
            text = self._path.read_text(encoding='utf-8')
        except OSError as err:
            raise ValueError(
                f'{self._path}: {err.strerror}; the file must exist and be '
                'readable by the user of nova-compute'
            ) from err
        except UnicodeDecodeError as err:
            raise ValueError(f'{self._path} is not UTF-8: {err}') from err
        try:
            good, bad = pool_file.parse(text)
        except ValueError as err:
            raise ValueError(f'{self._path}: {err}; correct the file') from err
        self._use(good, bad)
        self._signature = signature

    def _use(
        self,
        good: Iterable[pool_file.Definition],
        bad: Iterable[pool_file.BadPool],
    ) -> None:
        """Take over definitions; of one with an error, the last good one."""
        before, self._bad = self._readers, tuple(bad)
        self._readers = {
            one.pool.name: self._find_reader(before, one) for one in good
        }
        for one in self._bad:
            if one.name in before:
                self._readers.setdefault(one.name, before[one.name])
            LOG.error(
                'Host %(host)s: the entry of pool %(name)s in %(path)s cannot '
                'be used, and the former entry stays in use: %(reason)s',
                {
                    'host': self.host,
                    'name': one.name,
                    'path': self._path,
                    'reason': one.reason,
                },
            )

    def _find_reader(
        self,
        before: dict[str, readers.PoolReader],
        one: pool_file.Definition,
    ) -> readers.PoolReader:
        known = before.get(one.pool.name)
        if known is not None and known.definition == one:
            return known
        return readers.PoolReader(
            one,
            sources.Source(
                kind=one.source,
                location=one.location,
                unit_size=one.unit_size,
                timeout=self.options.timeout,
                ceph_command=self._ceph_command,
                ca_file=self.options.ca_file,
            ),
            interval=self.options.interval,
        )


def _split_command(text: str) -> list[str]:
    """Return the words of a command.

    :raises InvalidConfiguration: it has none, or a quote that does not end
    """
    with values.checked('[ext_resources_shared_pool] ceph_command', text):
        words = shlex.split(text)
        if not words:
            raise ValueError('the command is empty')
        return words


def _explain(one: pool_file.Definition, state: readers.PoolState) -> str:
    last = (
        'The pool has not been read since the start'
        if state.reading is None
        else f'The last good value was {state.reading.total} '
        f'{one.pool.resource_class}, read at '
        f'{state.reading.read_at.isoformat(timespec="seconds")}'
    )
    return (
        f'pool {one.pool.name} ({one.source} {one.location}) cannot be read: '
        f'{state.failure}. {last}. Placement keeps the inventory of the pool, '
        'unless another host reads the pool'
    )
