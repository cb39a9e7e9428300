# SPDX-License-Identifier: Apache-2.0

"""Read the log of Nova's services: what they said since some moment."""

import dataclasses
import pathlib
import re

_LINE = re.compile(
    r'^\S+ \S+ \d+ (?P<level>[A-Z]+) (?P<logger>\S+) '
    r'\[[^]]*\] (?:\[instance: (?P<server>[^]]+)\] )?(?P<message>.*)$'
)

#: Logged at every start, although nobody asked for memcache.
_HARMLESS = 'oslo_cache.memcache_pool'

#: Characters of a message that are worth showing.
_MAX_PROBLEM = 400


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of the log.

    :ivar server: uuid of the server that it is about, or an empty string
    """

    level: str
    logger: str
    server: str
    message: str


class Journal:
    """A log file that grows; :meth:`mark` and read what came later."""

    def __init__(self, path: pathlib.Path) -> None:
        self._path = path

    def mark(self) -> int:
        """Return the place where the log ends now."""
        return self._path.stat().st_size if self._path.exists() else 0

    def since(self, mark: int, *words: str) -> list[Line]:
        """Return the lines after ``mark`` that hold all of ``words``."""
        if not self._path.exists():
            return []
        with self._path.open(errors='replace') as log:
            log.seek(mark)
            lines = [_LINE.match(line.rstrip('\n')) for line in log]
        return [
            Line(
                level=found['level'],
                logger=found['logger'],
                server=found['server'] or '',
                message=found['message'],
            )
            for found in lines
            if found and all(word in found[0] for word in words)
        ]

    def problems(self, limit: int = 10) -> list[str]:
        """Return the last errors, for a person who looks for the cause."""
        found = [
            f'{line.logger}: {line.message[:_MAX_PROBLEM]}'
            for line in self.since(0)
            if line.level in ('ERROR', 'CRITICAL')
            and not line.message.startswith((' ', 'Traceback'))
            and line.message
            and _HARMLESS not in line.message
        ]
        return found[-limit:]
