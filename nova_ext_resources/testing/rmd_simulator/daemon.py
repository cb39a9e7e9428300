# SPDX-License-Identifier: Apache-2.0

"""The daemon: its records, and what requests do to them."""

from collections.abc import Mapping
import contextlib
import os
import threading
import time
from typing import Any

from nova_ext_resources.testing.rmd_simulator import allocation
from nova_ext_resources.testing.rmd_simulator import classes
from nova_ext_resources.testing.rmd_simulator import enforcement
from nova_ext_resources.testing.rmd_simulator import patching
from nova_ext_resources.testing.rmd_simulator import resctrl
from nova_ext_resources.testing.rmd_simulator import settings as settings_mod
from nova_ext_resources.testing.rmd_simulator import validation
from nova_ext_resources.testing.rmd_simulator import workload

#: Seconds between check and act with ``has_races``: long enough for a
#: parallel request to slip in.
RACE_WINDOW = 0.05


class NotFound(Exception):
    """No workload has that id."""


class NotOurs(Exception):
    """The workload was not made over REST."""


class Daemon:
    """All state of one RMD, and the groups that it manages.

    Its methods raise ``validation.Refused``, ``allocation.CannotEnforce``,
    ``NotFound``, ``NotOurs`` and ``cores.Panic``.
    """

    def __init__(self, settings: settings_mod.Settings) -> None:
        self.settings = settings
        self.enforcement = enforcement.Enforcement(settings)
        self._records: dict[str, workload.Record] = {}
        self._sequence = 0
        self._writing = threading.RLock()
        #: Held for each access to state; RMD has no more than this one.
        self._state = threading.RLock()

    def locked(self) -> contextlib.AbstractContextManager[object]:
        """Keep all state as it is; one thread may do so repeatedly."""
        return self._state

    @property
    def resctrl(self) -> resctrl.Resctrl:
        """What is really applied."""
        return self.enforcement.resctrl

    def list_records(self) -> list[workload.Record]:
        """Return all records, sorted by id as text."""
        with self._state:
            return [self._records[key].copy() for key in sorted(self._records)]

    def get_record(self, record_id: str) -> workload.Record:
        """Return one record."""
        with self._state:
            if record_id not in self._records:
                raise NotFound(record_id)
            return self._records[record_id].copy()

    def free_ways(self, pool: str) -> dict[int, int] | None:
        """Return a pool's free ways per cache, None without such a pool."""
        with self._state:
            return self.enforcement.free_ways(pool)

    def create(self, record: workload.Record) -> workload.Record:
        """Check, enforce and store a workload; give the answer's record."""
        with self._one_writer():
            running = _running_tasks(record.task_ids)
            validation.validate(self.settings, record, running)
            if not record.policy and record.bandwidth is not None:
                self.enforcement.bandwidth = record.bandwidth
            validation.validate_in_database(record, self.list_records())
            if self.settings.has_races:
                time.sleep(RACE_WINDOW)
            with self._state:
                self.enforcement.enforce(record)
                self._store(record)
            return record

    def _one_writer(self) -> contextlib.AbstractContextManager[object]:
        """Let one request in at a time, unless RMD's races are wanted."""
        if self.settings.has_races:
            return contextlib.nullcontext()
        return self._writing

    def _store(self, record: workload.Record) -> None:
        if not record.id:
            self._sequence += 1
            record.id = str(self._sequence)
        self._records[record.id] = record.as_stored()

    def delete(self, record_id: str) -> None:
        """Release a workload and forget it."""
        with self._one_writer(), self._state:
            record = self.get_record(record_id)
            if record.origin != workload.REST:
                raise NotOurs(record_id)
            self.enforcement.release(record)
            del self._records[record_id]

    def patch(
        self, record_id: str, patched: workload.Record
    ) -> workload.Record:
        """Change a workload, with all traps of the daemon."""
        with self._one_writer(), self._state:
            record = self.get_record(record_id)
            if record.origin != workload.REST:
                raise NotOurs(record_id)
            self.forget_ended_tasks()
            patched.id = record_id
            self._apply_patch(record, patched)
            self._store(record)
            return record

    def _apply_patch(
        self, record: workload.Record, patched: workload.Record
    ) -> None:
        has_new, limit = patching.merge(self.settings, record, patched)
        if limit is not None:
            self.enforcement.bandwidth = limit
        if has_new:
            self.enforcement.release(record)
            record.task_ids = patched.task_ids or record.task_ids
            record.core_ids = patched.core_ids or record.core_ids
            record.plugins = patched.plugins
            # When this fails, the stored record still shows the old class.
            self.enforcement.enforce(record)
        elif (patched.core_ids, patched.task_ids) != (
            record.core_ids,
            record.task_ids,
        ):
            self._check_as_new(patched)

    def _check_as_new(self, patched: workload.Record) -> None:
        """Check the body as a new workload: its own id is in the way."""
        try:
            running = _running_tasks(patched.task_ids)
            validation.validate(self.settings, patched, running)
            validation.validate_in_database(patched, self.list_records())
        except validation.Refused as err:
            raise allocation.CannotEnforce(
                validation.with_details(
                    'Failed to validate workload', str(err)
                )
            ) from None

    def forget_ended_tasks(self) -> None:
        """Drop records whose tasks have all ended; their class stays used."""
        with self._state:
            for record in self.list_records():
                if record.task_ids and not _running_tasks(record.task_ids):
                    del self._records[record.id]

    def restart(
        self, *, keep_database: bool = True, keep_groups: bool = True
    ) -> None:
        """Forget what is only in memory, and read the records again.

        :raises StartFailed: two records share a class, or one has a limit in
            another unit than that of the mode
        """
        with self._state:
            if not keep_database:
                self._records = {}
                self._sequence = 0
            if not keep_groups:
                self.resctrl.clear()
            # RMD drops records of plugins alone.
            self._records = {
                key: record
                for key, record in self._records.items()
                if record.cos_name
            }
            self.enforcement.start(
                record.cos_name for record in self.list_records()
            )
            self._check_units()

    def _check_units(self) -> None:
        """Look for limits beside policies too, which nothing enforces."""
        mode = self.settings.mba_mode
        for record in self.list_records():
            if (record.percentage is not None and mode != 'percentage') or (
                record.mbps is not None and mode != 'mbps'
            ):
                # It names percentages also where they are the mode.
                raise classes.StartFailed(
                    'Workload in database contains MBA setting (percentage) '
                    f'not compatible with current configuration ({mode})'
                )

    def to_dict(self) -> dict[str, Any]:
        """Write everything that outlives the process, for a file."""
        with self._state:
            return {
                'sequence': self._sequence,
                'records': [r.to_body() for r in self.list_records()],
                'groups': self.resctrl.to_dict(),
            }

    def load_dict(self, data: Mapping[str, Any]) -> None:
        """Start with what ``to_dict`` wrote.

        :raises StartFailed: see :meth:`restart`
        """
        with self._state:
            self._sequence = data['sequence']
            records = map(workload.from_stored, data['records'])
            self._records = {record.id: record for record in records}
            self.resctrl.load_dict(data['groups'])
            self.restart()


def _running_tasks(task_ids: list[str]) -> set[str]:
    """Tasks are those of this machine: RMD looks into /proc."""
    return {
        task
        for task in task_ids
        if task.isdecimal() and os.path.isdir(f'/proc/{task}')
    }
