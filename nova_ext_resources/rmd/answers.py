# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""An answer of RMD, and the error that it stands for.

RMD means to answer 400 or 404 where it answers 500, because of a mistake
in its error handling. So the text decides, the status only where there is
no text.
"""

from collections.abc import Callable
import dataclasses
import json
import re
from typing import Any, NoReturn

from nova_ext_resources.rmd import errors

#: Answered by something in front of RMD, or by RMD's host while it starts.
_UNAVAILABLE = frozenset({502, 503, 504})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What came back.

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
        return ' '.join(self.text.split())[:300] or 'an empty answer'

    def json(self) -> Any:
        """Decode it.

        :raises MalformedAnswer: it is no JSON
        """
        try:
            return json.loads(self.text)
        except (ValueError, RecursionError) as err:
            self.raise_malformed(f'it is no JSON: {self.reason!r}', err)

    def raise_malformed(
        self, reason: str, cause: Exception | None = None
    ) -> NoReturn:
        """Raise MalformedAnswer."""
        raise errors.MalformedAnswer(
            url=self.url,
            action=self.action,
            status=self.status,
            reason=reason,
        ) from cause


def _workload_exists(
    found: re.Match[str], facts: dict[str, Any]
) -> errors.RmdError:
    return errors.WorkloadExists(workload_id=found['id'], **facts)


def _tasks_in_use(
    found: re.Match[str], facts: dict[str, Any]
) -> errors.RmdError:
    return errors.TasksInUse(workload_id=found['id'], **facts)


def _cpus_in_use(
    found: re.Match[str], facts: dict[str, Any]
) -> errors.RmdError:
    cpus = frozenset(map(int, found['cpus'].split()))
    return errors.CpusInUse(cpus=cpus, **facts)


def _not_enough_cache(
    found: re.Match[str], facts: dict[str, Any]
) -> errors.RmdError:
    return errors.NotEnoughCache(cache_id=int(found['id']), **facts)


def _plain(
    error: type[errors.RmdError],
) -> Callable[[re.Match[str], dict[str, Any]], errors.RmdError]:
    return lambda _found, facts: error(**facts)


#: The first whose text is found in the answer decides.
_BY_TEXT: tuple[
    tuple[
        re.Pattern[str],
        Callable[[re.Match[str], dict[str, Any]], errors.RmdError],
    ],
    ...,
] = tuple(
    (re.compile(pattern), make)
    for pattern, make in (
        (
            r'UUID \S+ already exists in workload (?P<id>\S+)',
            _workload_exists,
        ),
        (r'Workload with id (?P<id>\S+) already exists', _workload_exists),
        (
            r'TaskID \S+ already exists in workload (?P<id>\S+)',
            _tasks_in_use,
        ),
        (r'CPU list \[(?P<cpus>[\d ]*)\] has been assigned', _cpus_in_use),
        (
            r'Not enough cache left on cache_id (?P<id>\d+)',
            _not_enough_cache,
        ),
        (r'No free CLOS', _plain(errors.NoFreeClos)),
        (
            r'You only have permission to (delete|modify) REST origin',
            _plain(errors.ForeignWorkload),
        ),
        (r'Could not found workload', _plain(errors.WorkloadNotFound)),
        (r'\bMBA\b', _plain(errors.MbaRefused)),
        (r'module that is not loaded', _plain(errors.PluginNotLoaded)),
        (r'Invalid params', _plain(errors.PluginRefused)),
        (r'Malformed credentials', _plain(errors.AuthFailed)),
        (r'is not authorized', _plain(errors.NotPermitted)),
        (r'Failed to validate workload', _plain(errors.RmdRejected)),
    )
)


def raise_for_answer(answer: Answer) -> None:
    """Raise the error that an answer stands for, if it stands for one.

    :raises RmdError: it does
    """
    facts: dict[str, Any] = {
        'url': answer.url,
        'action': answer.action,
        'status': answer.status,
        'reason': answer.reason,
    }
    # A successful answer is JSON or empty; one that is text refuses.
    if answer.status < 300 and answer.text.lstrip()[:1] in '[{':
        return
    for pattern, make in _BY_TEXT:
        found = pattern.search(answer.text)
        if found:
            raise make(found, facts)
    error = _by_status(answer)
    if error:
        raise error(**facts)


def _by_status(answer: Answer) -> type[errors.RmdError] | None:
    if answer.status == 401:
        return errors.AuthFailed
    if answer.status == 403:
        return errors.NotPermitted
    if answer.status in _UNAVAILABLE:
        return errors.RmdUnavailable
    if answer.status in (400, 500) and not answer.text:
        return errors.CachesUnreadable
    if answer.status >= 500:
        return errors.RmdFailed
    if answer.status in (404, 405) or 300 <= answer.status < 400:
        return errors.MalformedAnswer
    if answer.status >= 400:
        return errors.RmdRejected
    return None
