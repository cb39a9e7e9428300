# SPDX-License-Identifier: Apache-2.0

"""One thread for each pool, because a source may hang for ever.

``statvfs`` of an NFS server that is away does not return, and cannot be ended.
Then no second thread is started beside it.
"""

import dataclasses
import threading


from nova_ext_resources import clocks
from nova_ext_resources.drivers.shared_pool import pool_file
from nova_ext_resources.drivers.shared_pool import sources
from nova_ext_resources.objects import pool


#: Part of the interval from which on a source is read again: rounds come a
#: little earlier or later than each interval.
EARLY = 0.85


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PoolState:
    """What is known of a pool. Replaced, and never changed.

    :ivar reading: the last good one; None: none since the start
    :ivar taken_at: when that was so, in monotonic seconds
    :ivar failure: why there is no newer one; '' where there is
    """

    reading: pool.Reading | None = None
    taken_at: float = 0.0
    failure: str = ''


class PoolReader:
    """Reads one source again and again. Used by one thread at a time.

    :param interval: seconds from one reading to the next
    """

    def __init__(
        self,
        definition: pool_file.Definition,
        source: sources.Source,
        *,
        interval: float,
        clock: clocks.Clock = clocks.MACHINE,
    ) -> None:
        self.definition = definition
        self._source = source
        self._interval = interval
        self._clock = clock
        self._state = PoolState()
        self._thread: threading.Thread | None = None
        self._began_at = 0.0
        self._began_on = self._clock.read()

    @property
    def is_reading(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    @property
    def is_working(self) -> bool:
        """Whether a reading that was just started is worth waiting for."""
        return self.is_reading and not self._state.failure

    def start(self) -> None:
        """Begin to read if it is time, unless the last reading goes on.

        A pool that only others read is never read.
        """
        if not self.definition.pool.is_read:
            return
        now = self._clock.monotonic()
        is_due = self._thread is None or (
            now - self._began_at >= self._interval * EARLY
        )
        if not is_due or self.is_reading:
            return
        thread = threading.Thread(
            target=self._read,
            name=f'ext-resources-pool-{self.definition.pool.name}',
            daemon=True,
        )
        self._began_at, self._began_on = now, self._clock.read()
        # It may fail for the moment: then it is due at once.
        thread.start()
        self._thread = thread

    def wait(self, deadline: float) -> None:
        """Wait for the reading that was started, until a time."""
        if self._thread is not None:
            self._thread.join(max(deadline - self._clock.monotonic(), 0.0))

    def _read(self) -> None:
        """Read once; a failure keeps the last good reading."""
        try:
            found = sources.read(self._source)
        except (OSError, ValueError) as err:
            self._fail(str(err) or type(err).__name__)
        # A bug, or an error of a library that is not meant to come through:
        # no failure is missed, as no other one sees how this thread ends.
        except Exception as err:
            self._fail(f'{type(err).__name__}: {err}')
        else:
            if failure := pool_file.find_undated(self.definition, found):
                self._fail(failure)
            else:
                # Of a document, only the clock tells when it was written.
                age = (self._clock.read() - found.read_at).total_seconds()
                self._state = PoolState(
                    reading=found, taken_at=self._clock.monotonic() - age
                )

    def _fail(self, failure: str) -> None:
        self._state = dataclasses.replace(self._state, failure=failure)

    def find_state(self) -> PoolState:
        """Return what is known now, and what is wrong with it."""
        state = self._state
        hangs = self.is_reading and (
            self._clock.monotonic() - self._began_at >= self._interval
        )
        if hangs:
            since = self._began_on.isoformat(timespec='seconds')
            return dataclasses.replace(
                state, failure=f'the source has not answered since {since}'
            )
        max_age = self.definition.max_age
        if (
            max_age
            and state.reading
            and not state.failure
            and self._clock.monotonic() - state.taken_at > max_age
        ):
            return dataclasses.replace(
                state,
                failure='the last value is older than max_age '
                f'({max_age} seconds)',
            )
        return state
