# SPDX-License-Identifier: Apache-2.0

"""Logs what discovery has found to be wrong, or worth a note, once."""

from collections.abc import Collection

from oslo_log import log as logging

LOG = logging.getLogger(__name__)


class Report:
    """What was logged the last time, so that only what is new is."""

    def __init__(self, plugin: str, host: str) -> None:
        self._plugin = plugin
        self._host = host
        self._last: frozenset[str] = frozenset()

    def log(
        self, faults: Collection[str], notes: Collection[str] = ()
    ) -> None:
        """Log what is new: faults as warnings, notes as information."""
        for level, lines in (
            (logging.WARNING, faults),
            (logging.INFO, notes),
        ):
            for line in lines:
                if line not in self._last:
                    LOG.log(
                        level,
                        'Host %(host)s: inventory provider %(plugin)s: '
                        '%(line)s',
                        {
                            'host': self._host,
                            'plugin': self._plugin,
                            'line': line,
                        },
                    )
        self._last = frozenset([*faults, *notes])
