# SPDX-License-Identifier: Apache-2.0

"""Rounds that a test runs itself, beside the threads of a started service."""

import functools
import threading
from typing import Any

import fixtures

from nova_ext_resources.host.service import periodic
from nova_ext_resources.placement.publish import publisher


class OneAtATime(fixtures.Fixture):
    """Makes a round that a test runs wait for the one of the thread.

    A started service runs its rounds in one thread. A round in the thread of
    a test wakes it, and two publishers at once get in each other's way: one
    creates a provider that the other is about to create.
    """

    def _setUp(self) -> None:
        for kind in (periodic.Periodic, publisher.Publisher):
            self._guard(kind)

    def _guard(self, kind: type[Any]) -> None:
        lock = threading.Lock()
        run = kind.run_round

        @functools.wraps(run)
        def run_alone(made: Any) -> None:
            with lock:
                run(made)

        self.useFixture(fixtures.MonkeyPatch(_find_name(kind), run_alone))


def _find_name(kind: type[Any]) -> str:
    return f'{kind.__module__}.{kind.__name__}.run_round'
