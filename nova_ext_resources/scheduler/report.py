# SPDX-License-Identifier: Apache-2.0

"""Logs a line per refused host, with all that speaks against it.

Ten thousand of them help nobody at INFO, and take longer to write than to
find. The rest is at DEBUG. All are written at the end: what they are made of
may be locked until then.
"""

from collections.abc import Callable, Iterable
from typing import Any

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.scheduler import request

LOG = logging.getLogger(__name__)

#: Hosts per request whose reasons are worth a line each at INFO.
MAX_EXPLAINED = 20


class RefusalReport:
    """What a filter refuses of one request.

    :param name: of the filter
    """

    def __init__(self, name: str, spec_obj: Any) -> None:
        self._name = name
        self._spec_obj = spec_obj
        self._count = 0
        self._is_debug = LOG.isEnabledFor(logging.DEBUG)
        self._lines: list[tuple[int, str, dict[str, Any]]] = []

    def add(
        self,
        host_state: Any,
        explain: Callable[[], Iterable[exception.Shortfall]],
    ) -> None:
        """Note that a host is refused.

        :param explain: called only if somebody may read it
        """
        self._count += 1
        if self._count <= MAX_EXPLAINED:
            self._note(logging.INFO, host_state, explain())
        elif self._is_debug:
            self._note(logging.DEBUG, host_state, explain())

    def finish(self) -> None:
        """Log them, and how many there were if not all have a line."""
        for level, text, arguments in self._lines:
            LOG.log(level, text, arguments)
        if self._count > MAX_EXPLAINED:
            LOG.info(
                '%(filter)s refuses %(count)d hosts in total for server '
                '%(server)s (request %(request)s); the log at level DEBUG has '
                'a line for each host.',
                {
                    'filter': self._name,
                    'count': self._count,
                    **request.identify(self._spec_obj),
                },
            )

    def _note(
        self,
        level: int,
        host_state: Any,
        shortfalls: Iterable[exception.Shortfall],
    ) -> None:
        text = (
            '%(filter)s refuses host %(host)s node %(node)s for server '
            '%(server)s (request %(request)s): %(reasons)s'
        )
        arguments = {
            'filter': self._name,
            'host': host_state.host,
            'node': host_state.nodename,
            'reasons': '; '.join(map(str, shortfalls)),
            **request.identify(self._spec_obj),
        }
        self._lines.append((level, text, arguments))
