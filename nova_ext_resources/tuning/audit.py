# SPDX-License-Identifier: Apache-2.0

"""What was changed while servers ran, and why: one JSON object a line.

Each line is about one server: whoever asks why a server was slower at noon
finds it with the server's uuid. The file is bounded: it and the one before it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import datetime
import enum
import json
import os
from typing import Any, BinaryIO

from oslo_log import log as logging

from nova_ext_resources.objects import tunable
from nova_ext_resources.tuning import pressure
from nova_ext_resources.tuning import steps

LOG = logging.getLogger(__name__)

#: Bytes; about 20,000 lines.
MAX_BYTES = 10 * 1024 * 1024

#: Added to the name of the file before.
OLD = '.1'


class Outcome(enum.StrEnum):
    """What became of a step."""

    APPLIED = 'applied'
    DRY_RUN = 'dry run'
    FAILED = 'failed'


def _utc_now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


class AuditTrail:
    """The file; what cannot be written does not stop tuning.

    :param path: its folder is made when it is not there
    :param max_bytes: it is replaced by a new one before it grows beyond
    :ivar problem: why the last lines could not be written; '' when they were
    """

    def __init__(
        self,
        path: str,
        *,
        host: str,
        max_bytes: int = MAX_BYTES,
        now: Callable[[], datetime.datetime] = _utc_now,
    ) -> None:
        self.path = path
        self.problem = ''
        self._host = host
        self._max_bytes = max_bytes
        self._now = now

    def write(
        self,
        move: steps.Move,
        *,
        outcome: Outcome,
        before: Sequence[tunable.Tunable],
        readings: Iterable[pressure.Reading] = (),
        error: str = '',
    ) -> None:
        """Write a line for each server that the step is about, and log it.

        :param before: tunables of the pool before the step
        :param readings: the latest ones
        """
        records = [
            {
                'at': self._now().isoformat(timespec='milliseconds'),
                'host': self._host,
                'outcome': str(outcome),
                **record,
                'error': error,
            }
            for record in list_records(move, before, readings)
        ]
        for record in records:
            _log(record)
        self._append(''.join(f'{json.dumps(one)}\n' for one in records))

    def _append(self, text: str) -> None:
        try:
            self._make_room(len(text))
            with open(self.path, 'a+b', opener=_open) as file:
                file.write(f'{_find_gap(file)}{text}'.encode())
        except OSError as err:
            problem = (
                f'the audit trail of fine tuning, {self.path}, cannot be '
                f'written ({err.strerror or err}); tuning goes on, its '
                'changes are in the log; free the disk or correct '
                '[ext_resources_tuning] audit_path'
            )
            if problem != self.problem:
                LOG.error(
                    'Host %(host)s: %(problem)s',
                    {'host': self._host, 'problem': problem},
                )
            self.problem = problem
        else:
            self.problem = ''

    def _make_room(self, coming: int) -> None:
        folder = os.path.dirname(self.path)
        if folder:
            os.makedirs(folder, mode=0o750, exist_ok=True)
        try:
            size = os.stat(self.path).st_size
        except FileNotFoundError:
            return
        if size and size + coming > self._max_bytes:
            os.replace(self.path, f'{self.path}{OLD}')


def _open(path: str, flags: int) -> int:
    # Who suffers from whose load is nothing for every user of the host.
    return os.open(path, flags | os.O_NOFOLLOW, 0o640)


def _find_gap(file: BinaryIO) -> str:
    """Give what ends a line that a full disk has torn off."""
    if not file.seek(0, os.SEEK_END):
        return ''
    file.seek(-1, os.SEEK_END)
    return '' if file.read(1) == b'\n' else '\n'


def list_records(
    move: steps.Move,
    before: Iterable[tunable.Tunable],
    readings: Iterable[pressure.Reading],
) -> Iterator[dict[str, Any]]:
    """Say what a step means for each server that it is about. Pure."""
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
                'reason': _give_reason(move, server),
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
    one: tunable.Tunable, move: steps.Move
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


def _give_reason(move: steps.Move, server: str) -> str:
    """Say it for this server; the move's reason is about the taker."""
    if move.kind is steps.Kind.UNDONE or server == move.taker:
        return move.reason
    return f'gives to server {move.taker}, which {move.reason}'


def _describe_reading(reading: pressure.Reading) -> Mapping[str, Any]:
    return {
        'llc_bytes': reading.llc_bytes,
        'memory_bytes_per_second': reading.memory_bytes,
    }


def _log(record: Mapping[str, Any]) -> None:
    LOG.info(
        'Host %(host)s: server %(server)s %(verb)s %(before)s to %(after)s '
        '%(resource_class)s of %(provider)s (%(minimum)s to %(maximum)s were '
        'sold): it %(reason)s',
        {**record, 'verb': _VERBS[record['outcome']]},
    )


_VERBS = {
    Outcome.APPLIED: 'goes from',
    Outcome.DRY_RUN: 'would go from',
    Outcome.FAILED: 'could not go from',
}
