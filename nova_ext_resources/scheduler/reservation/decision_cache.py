# SPDX-License-Identifier: Apache-2.0

"""What was decided about candidates beside what is promised, and when.

A decision about units side by side takes as long as a hundred comparisons of
amounts. It is the same as long as the host publishes the same, and the same is
promised of it: for all servers of a flavor that come until then.

So much is remembered as fits into some tens of megabytes, whatever the number
of hosts; then those hosts are forgotten that were not asked about for longest.
"""

import collections

from collections.abc import Callable, Hashable
import dataclasses
from typing import TypeAlias

from nova_ext_resources.reservation import promise_ledger

#: A slot that would be broken, or None; and the end of what was looked at
#: that ends first: fewer slots may be broken then.
Verdict: TypeAlias = tuple[promise_ledger.Promise | None, int]

#: Kinds of requests that are remembered of a host.
MAX_KINDS = 64

#: Those that are remembered of all hosts, less than a kilobyte each: ten of
#: each of ten thousand hosts.
MAX_VERDICTS = 100_000


@dataclasses.dataclass(slots=True)
class _Host:
    """What was decided on one host.

    :ivar text: what it published
    :ivar version: of what is promised of it
    :ivar known: kind of request -> since when, and the verdict
    """

    text: str | None
    version: int
    known: dict[Hashable, tuple[int, Verdict]] = dataclasses.field(
        default_factory=dict
    )


class DecisionCache:
    """Those of all hosts, as long as they hold."""

    def __init__(self) -> None:
        #: Those that were not asked about for longest come first.
        self._hosts: collections.OrderedDict[str, _Host] = (
            collections.OrderedDict()
        )
        #: Of all hosts.
        self._count = 0

    def find(
        self,
        host: tuple[str, str | None, int],
        kind: Hashable,
        now: int,
        decide: Callable[[], Verdict],
    ) -> promise_ledger.Promise | None:
        """Return a slot that would be broken, None if there is none.

        :param host: its name, what it publishes, and the version of what is
            promised of it
        :param kind: what the request asks for, and of which places
        :param now: seconds since the epoch
        :param decide: called if it is not known
        """
        held = self._find(*host)
        if kind in held.known:
            since, verdict = held.known[kind]
            if since <= now < verdict[1]:
                return verdict[0]
        elif len(held.known) >= MAX_KINDS:
            self._count -= len(held.known)
            held.known.clear()
        verdict = decide()
        self._count += kind not in held.known
        held.known[kind] = now, verdict
        while self._count > MAX_VERDICTS:
            self._count -= len(self._hosts.popitem(last=False)[1].known)
        return verdict[0]

    def _find(self, name: str, text: str | None, version: int) -> _Host:
        held = self._hosts.get(name)
        if held is None or (held.text, held.version) != (text, version):
            self._count -= len(held.known) if held else 0
            held = self._hosts[name] = _Host(text, version)
        self._hosts.move_to_end(name)
        return held
