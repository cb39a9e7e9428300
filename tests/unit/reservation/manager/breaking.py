# SPDX-License-Identifier: Apache-2.0

"""Databases that break in a commit, or after it; managers that die."""

from collections.abc import Callable, Iterator
import contextlib
import enum
from typing import Any

import sqlalchemy as sa

from nova_ext_resources import exception
from nova_ext_resources.reservation.store import databases


class _Breaks(databases.Database):
    """Knows which transactions write."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.written = 0
        sa.event.listen(self.engine, 'after_cursor_execute', self._count)

    def _count(self, *args: Any) -> None:
        self.written += args[2].startswith(('UPDATE', 'INSERT', 'DELETE'))


class LosesAnswers(_Breaks):
    """Commits what writes, and then the connection breaks: once.

    :ivar is_lost: whether it has
    """

    is_lost = False

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        before = self.written
        with super().transaction() as connection:
            yield connection
        if self.written > before and not self.is_lost:
            self.is_lost = True
            raise exception.StoreUnavailable(reason='the connection broke')


class BreaksInWrites(_Breaks):
    """Breaks before each commit that writes.

    :ivar is_broken: whether it does
    """

    is_broken = True

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        before = self.written
        with super().transaction() as connection:
            yield connection
            if self.is_broken and self.written > before:
                raise exception.StoreUnavailable(reason='it went away')


class Died(BaseException):
    """Stands for the end of a process."""


class Dying:
    """Ends a manager before its n-th step.

    A step is a question to the cloud, or the begin or end of a transaction.

    :ivar has_died: whether there was such a step
    """

    def __init__(self, step: int) -> None:
        self._left = step
        self.has_died = False

    def wrap(self, owner: Any, name: str) -> None:
        """Count the calls of a method of an object."""
        original = getattr(owner, name)

        def call(*args: Any, **kwargs: Any) -> Any:
            self._left -= 1
            if not self._left:
                self.has_died = True
                raise Died
            return original(*args, **kwargs)

        setattr(owner, name, call)


class DyingDatabase(databases.Database):
    """Ends a manager as :class:`Dying` says, in transactions."""

    def __init__(self, url: str, dying: Dying) -> None:
        super().__init__(url)
        dying.wrap(self, 'step')

    def step(self) -> None:
        """Be counted."""

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        self.step()
        with super().transaction() as connection:
            yield connection
            self.step()


class Steps:
    """Has something happen at a step of a manager, once.

    :ivar depth: how many transactions are open
    """

    def __init__(self) -> None:
        self.depth = 0
        self.forget()

    def plan(
        self,
        number: int,
        happen: Callable[[], None],
        *,
        is_apart: bool = False,
    ) -> None:
        """Have something happen before a step.

        :param number: of the step, from 1 on
        :param is_apart: whether it waits for the end of a transaction
        """
        self._left, self._happen, self._is_apart = number, happen, is_apart

    def forget(self) -> None:
        """Have nothing happen that has not happened yet."""
        self.plan(0, lambda: None)

    def take(self) -> None:
        """Be called before each step."""
        self._left -= 1
        if self._left > 0 or (self._is_apart and self.depth):
            return
        happen = self._happen
        self.forget()
        happen()


class Fault(enum.Enum):
    """How a database fails the next time that something is written.

    ``BREAKS``: before the commit.
    ``LOSES``: after it, so that the answer is lost.
    """

    BREAKS = enum.auto()
    LOSES = enum.auto()


class FaultyDatabase(_Breaks):
    """Fails as a test says, at a step of a manager.

    :ivar is_away: whether it cannot be reached
    :ivar fault: how it fails next, once; None if it does not
    """

    def __init__(self, url: str, steps: Steps) -> None:
        super().__init__(url)
        self.is_away = False
        self.fault: Fault | None = None
        self._steps = steps

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sa.Connection]:
        self._steps.take()
        if self.is_away:
            raise exception.StoreUnavailable(reason='it is away')
        before = self.written
        with super().transaction() as connection:
            self._steps.depth += 1
            try:
                yield connection
                self._steps.take()
                self._fail(before, Fault.BREAKS)
            finally:
                self._steps.depth -= 1
        self._fail(before, Fault.LOSES)

    def _fail(self, before: int, fault: Fault) -> None:
        if self.written > before and self.fault is fault:
            self.fault = None
            raise exception.StoreUnavailable(reason='the connection broke')
