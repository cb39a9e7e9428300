# SPDX-License-Identifier: Apache-2.0

"""How long one part of a pass goes on, so that the others have their turn.

A service that does not answer costs seconds for each question. After the first
such failure, or when its time is over, a part leaves the rest to the next
pass.
"""

from collections.abc import Callable
from typing import ParamSpec

from nova_ext_resources import exception
from nova_ext_resources.reservation.manager import chores
from nova_ext_resources.reservation.manager import watch

_P = ParamSpec('_P')

#: Seconds of one part of a pass. What is under way then is not broken off.
MAX_SECONDS = 300.0

#: With these a proxy answers for a service that is away.
_AWAY = frozenset({None, 502, 503, 504})


class Effort:
    """One part of one pass.

    :param passed: returns seconds since any time
    """

    def __init__(
        self, *, passed: Callable[[], float] = watch.read_passed
    ) -> None:
        self._passed = passed
        self._end = passed() + MAX_SECONDS
        self._is_cut = False

    @property
    def is_over(self) -> bool:
        """Whether the rest is left to the next pass."""
        return self._is_cut or self._passed() >= self._end

    def note(self, err: exception.ExtResourcesError) -> None:
        """Take note of a failure, which may be that of a whole service."""
        self._is_cut |= _is_away(err)

    def attempt(
        self,
        what: str,
        function: Callable[_P, bool],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> bool:
        """Do what :func:`.chores.attempt` does, and take note of a failure."""

        def call() -> bool:
            try:
                return function(*args, **kwargs)
            except exception.ExtResourcesError as err:
                self.note(err)
                raise

        return chores.attempt(what, call)


def _is_away(err: exception.ExtResourcesError) -> bool:
    """Return whether no other question would be answered, either."""
    if isinstance(err, exception.PlacementUnavailable):
        return err.status in _AWAY
    if isinstance(err, exception.ComputeUnavailable):
        return err.is_away
    return isinstance(err, exception.InvalidConfiguration)
