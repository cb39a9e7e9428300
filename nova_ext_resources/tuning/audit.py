# SPDX-License-Identifier: Apache-2.0

"""What was changed while servers ran, and why: one JSON object a line.

Each line is about one server: to find out why a server was slower at noon,
search for its uuid. The size is bounded: there is the file and the one before
it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import contextlib
import enum
import io
import json
import logging
from logging import handlers
import os
from typing import Any

from oslo_log import log as oslo_log

from nova_ext_resources import clocks
from nova_ext_resources import log_on_change
from nova_ext_resources.objects import tunable_units
from nova_ext_resources.tuning import pressure
from nova_ext_resources.tuning import steps

LOG = oslo_log.getLogger(__name__)

#: Bytes; about 20,000 lines.
MAX_BYTES = 10 * 1024 * 1024


class StepOutcome(enum.StrEnum):
    """The outcome of a step."""

    APPLIED = 'applied'
    DRY_RUN = 'dry run'
    FAILED = 'failed'


class AuditTrail:
    """The audit trail; a failure to write it does not stop tuning.

    :param path: its folder is created if it is missing
    :param max_bytes: before the file reaches this size, ``.1`` is appended to
        its name, and a new one begins
    :ivar problem: why the last lines could not be written; '' when they were
    """

    def __init__(
        self,
        path: str,
        *,
        host: str,
        max_bytes: int = MAX_BYTES,
        clock: clocks.Clock = clocks.MACHINE,
    ) -> None:
        self.path = path
        self.problem = ''
        self._logged = log_on_change.LogOnChange(f'Host {host}: ')
        self._host = host
        self._file = _File(path, maxBytes=max_bytes, backupCount=1, delay=True)
        self._clock = clock

    def check(self) -> None:
        """Create the file, if there is none.

        :raises OSError: it cannot be written
        """
        self._file.check()

    def write(
        self,
        move: steps.UnitMove,
        *,
        outcome: StepOutcome,
        before: Sequence[tunable_units.Tunable],
        readings: Iterable[pressure.PressureReading] = (),
        error: str = '',
    ) -> None:
        """Write and log a line for each server of a step.

        :param before: tunables of the pool before the step
        :param readings: the latest ones
        """
        records = [
            {
                'at': self._clock.read().isoformat(timespec='milliseconds'),
                'host': self._host,
                'outcome': str(outcome),
                **record,
                'error': error,
            }
            for record in list_records(move, before, readings)
        ]
        for record in records:
            _log(record)
        self._append('\n'.join(json.dumps(one) for one in records))

    def _append(self, text: str) -> None:
        try:
            with contextlib.closing(self._file):
                self._file.emit(logging.makeLogRecord({'msg': text}))
        except OSError as err:
            self.problem = (
                f'the audit trail of fine tuning, {self.path}, cannot be '
                f'written ({err.strerror or err}); tuning continues and its '
                'changes are in the log; free disk space or correct '
                '[ext_resources_tuning] audit_path'
            )
        else:
            self.problem = ''
        self._logged.log_new(LOG.error, filter(None, [self.problem]))


class _File(handlers.RotatingFileHandler):
    """The file, which is open only while it is written."""

    def _open(self) -> io.TextIOWrapper:
        # Which server slows down which other is not for every user to read.
        folder = os.path.dirname(self.baseFilename)
        os.makedirs(folder, mode=0o750, exist_ok=True)
        # The handler closes it.
        file = open(
            self.baseFilename, 'a', encoding='utf-8', opener=_open_file
        )
        if not _ends_with_line(self.baseFilename):
            file.write('\n')
        return file

    def check(self) -> None:
        self._open().close()

    def handleError(self, record: logging.LogRecord) -> None:
        raise


def _open_file(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NOFOLLOW, 0o640)


def _ends_with_line(path: str) -> bool:
    """Whether a full disk has not cut off the last line."""
    with open(path, 'rb') as file:
        if not file.seek(0, os.SEEK_END):
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b'\n'


def list_records(
    move: steps.UnitMove,
    before: Iterable[tunable_units.Tunable],
    readings: Iterable[pressure.PressureReading],
) -> Iterator[dict[str, Any]]:
    """Describe a step for each of its servers. Pure."""
    tunables = {
        one.consumer_uuid: one
        for one in before
        if (one.rp_key, one.resource_class) == move.pool
    }
    found = {
        one.consumer_uuid: one for one in readings if one.rp_key == move.rp_key
    }
    for server in move.servers:
        if server in tunables:
            yield {
                **_describe_tunable(tunables[server], move),
                'peer': move.giver if server == move.taker else move.taker,
                'kind': str(move.kind),
                'reason': _find_reason(move, server),
                'pressures': {
                    uuid: round(value, 4)
                    for uuid, value in move.pressures.items()
                },
                'measured': {
                    uuid: _describe_reading(found[uuid])
                    for uuid in move.servers
                    if uuid in found
                },
            }


def _describe_tunable(
    one: tunable_units.Tunable, move: steps.UnitMove
) -> Mapping[str, Any]:
    return {
        'server': one.consumer_uuid,
        'provider': one.rp_key,
        'resource_class': one.resource_class,
        'before': one.amount,
        'after': one.amount + move.find_gain(one.consumer_uuid),
        'minimum': one.minimum,
        'maximum': one.maximum,
    }


def _find_reason(move: steps.UnitMove, server: str) -> str:
    """Return the reason for this server; the step's is about the taker."""
    if move.kind is steps.StepKind.UNDONE or server == move.taker:
        return move.reason
    return f'gives units to server {move.taker}, which {move.reason}'


def _describe_reading(reading: pressure.PressureReading) -> Mapping[str, Any]:
    return {
        'llc_bytes': reading.llc_bytes,
        'memory_bytes_per_second': reading.memory_bytes,
    }


def _log(record: Mapping[str, Any]) -> None:
    LOG.info(
        'Host %(host)s: server %(server)s %(verb)s %(before)s to %(after)s '
        '%(resource_class)s of %(provider)s (allocated: %(minimum)s to '
        '%(maximum)s): the server %(reason)s',
        {**record, 'verb': _VERBS[record['outcome']]},
    )


_VERBS = {
    StepOutcome.APPLIED: 'goes from',
    StepOutcome.DRY_RUN: 'would go from',
    StepOutcome.FAILED: 'could not go from',
}
