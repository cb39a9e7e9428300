# SPDX-License-Identifier: Apache-2.0

"""The file in which the audit notes each change before and after it."""

import enum
import json
import os
from types import TracebackType
from typing import Any, TextIO

from osc_lib import exceptions
from oslo_utils import timeutils


class ChangeState(enum.StrEnum):
    """How far a change is.

    ``BEGUN``: the request is about to be sent; without another line, nothing
    is known of its end.
    ``DONE``: placement has made it.
    ``FAILED``: placement has not made it, or has not answered.
    """

    BEGUN = 'begun'
    DONE = 'done'
    FAILED = 'failed'


class AuditJournal:
    """A line of JSON for each; one that is written outlives a crash.

    :raises CommandError: the file cannot be opened
    """

    def __init__(self, path: str) -> None:
        self._path = path
        try:
            self._file: TextIO = open(path, 'a', encoding='utf-8')
        except OSError as err:
            raise self._explain(err) from err

    def __enter__(self) -> 'AuditJournal':
        return self

    def __exit__(
        self,
        _type: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        self._file.close()

    def write(self, state: ChangeState, **fields: Any) -> None:
        """Add a line.

        :raises CommandError: the file cannot be written
        """
        now = timeutils.utcnow(with_timezone=True)
        line = {'time': now.isoformat(), 'state': state.value, **fields}
        try:
            self._file.write(f'{json.dumps(line)}\n')
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as err:
            raise self._explain(err) from err

    def _explain(self, err: OSError) -> exceptions.CommandError:
        return exceptions.CommandError(
            f'The journal {self._path} cannot be written, so the repair '
            f'stops: {err}. Name another file with --journal, or free some '
            'space'
        )
