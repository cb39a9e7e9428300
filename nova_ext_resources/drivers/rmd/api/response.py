# SPDX-License-Identifier: Apache-2.0

"""A response of RMD, and the error that it stands for.

RMD means to answer 400 or 404 where it answers 500, because of a mistake
in its error handling. So the text decides, the status only where there is
no text.
"""

from collections.abc import Callable
import dataclasses
import re
from typing import Any, NoReturn, TypeVar

from nova_ext_resources.drivers.rmd.api import errors
from nova_ext_resources.objects.documents import foreign_data

_T = TypeVar('_T')

#: The first whose text is found in the response decides. Named groups
#: become attributes of the error.
_BY_TEXT: tuple[tuple[str, type[errors.RmdError]], ...] = (
    (
        r'(UUID \S+|TaskID \S+) already exists in workload '
        r'(?P<workload_id>\S+)',
        errors.WorkloadExists,
    ),
    (
        r'Workload with id (?P<workload_id>\S+) already exists',
        errors.WorkloadExists,
    ),
    (r'CPU list \[[\d ]*\] has been assigned', errors.CpusInUse),
    (r'Not enough cache left on cache_id \d+', errors.NotEnoughCache),
    (r'No free CLOS', errors.NoFreeClos),
    (
        r'You only have permission to (delete|modify) REST origin',
        errors.ForeignWorkload,
    ),
    (r'Could not found workload', errors.WorkloadNotFound),
    (r'\bMBA\b', errors.MbaRefused),
    (
        r'module that is not loaded|Plugin .* is not loaded',
        errors.PluginNotLoaded,
    ),
    (r'Invalid params', errors.PluginRefused),
    # Of Go's server, and of proxies.
    (r'HTTP request (was sent )?to (an )?HTTPS', errors.WrongScheme),
    (r'Malformed credentials', errors.AuthFailed),
    (r'is not authorized', errors.NotPermitted),
    (r'Failed to validate workload', errors.RmdRejected),
)

#: 5xx that are sent by a proxy before RMD, or by RMD's host while it starts.
_BY_STATUS: dict[int, type[errors.RmdError]] = {
    401: errors.AuthFailed,
    403: errors.NotPermitted,
    404: errors.MalformedResponse,
    405: errors.MalformedResponse,
    502: errors.RmdUnavailable,
    503: errors.RmdUnavailable,
    504: errors.RmdUnavailable,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RmdResponse:
    """What RMD sent back.

    :ivar url: the RMD
    :ivar action: method and path
    """

    url: str
    action: str
    status: int
    text: str

    @property
    def reason(self) -> str:
        """The text on one line, not longer than a line of a log."""
        return ' '.join(self.text.split())[:300] or 'an empty response'

    def read(self, convert: Callable[[Any], _T]) -> _T:
        """Return its JSON, converted by a function of :mod:`.decode`.

        :raises MalformedResponse: it is no JSON, or JSON of something else
        """
        try:
            return convert(foreign_data.load_json(self.text))
        except foreign_data.UNREADABLE as err:
            self.raise_malformed(
                f'{type(err).__name__} {err} while reading the response: '
                f'{self.reason!r}',
                err,
            )

    def raise_malformed(
        self, reason: str, cause: Exception | None = None
    ) -> NoReturn:
        """Raise MalformedResponse."""
        raise errors.MalformedResponse(
            url=self.url, action=self.action, status=self.status, reason=reason
        ) from cause

    def raise_for_error(self) -> None:
        """Raise the error that it stands for, if it stands for one.

        :raises RmdError: it does
        """
        # A successful response is JSON or empty; a text is a refusal.
        if self.status < 300 and self.text.lstrip()[:1] in '[{':
            return
        facts: dict[str, Any] = {
            'url': self.url,
            'action': self.action,
            'status': self.status,
            'reason': self.reason,
            # A proxy that responds may have passed the request on.
            'was_sent': True,
        }
        for pattern, error in _BY_TEXT:
            if found := re.search(pattern, self.text):
                raise error(**{**facts, **found.groupdict()})
        if by_status := self._find_by_status():
            raise by_status(**facts)

    def _find_by_status(self) -> type[errors.RmdError] | None:
        if self.status in _BY_STATUS:
            return _BY_STATUS[self.status]
        if self.status in (400, 500) and not self.text:
            return errors.CachesUnreadable
        if self.status >= 500:
            return errors.RmdFailed
        if self.status >= 400:
            return errors.RmdRejected
        return errors.MalformedResponse if self.status >= 300 else None
