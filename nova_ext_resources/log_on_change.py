# SPDX-License-Identifier: Apache-2.0

"""What was logged, so that what stays as it is fills no log."""

from collections.abc import Callable, Hashable, Iterable
from typing import Any, TypeVar

T = TypeVar('T')


class LogOnChange:
    """Notes what is wrong now, and finds what of it is to be logged.

    Each line has the logger of the caller's module. Where two threads note the
    same at once, it may be logged twice.

    :param prefix: begins each line of :meth:`log_new`
    :ivar problems: subject -> what is wrong with it; '' is the only subject
        where none is named
    """

    def __init__(self, prefix: str = '') -> None:
        self._prefix = prefix
        self.problems: dict[Any, Any] = {}

    def note(self, problem: Any, subject: Hashable = '') -> bool:
        """Note what is wrong with a subject; return whether to log it.

        :param problem: '', or another false value, where nothing is wrong
        """
        if not problem:
            self.clear(subject)
            return False
        is_new: bool = self.problems.get(subject) != problem
        self.problems[subject] = problem
        return is_new

    def clear(self, subject: Hashable = '') -> bool:
        """Note that a subject is well; return whether it was not before."""
        return self.problems.pop(subject, None) is not None

    def list_new(
        self, found: Iterable[T], key: Callable[[T], Hashable] = str
    ) -> list[T]:
        """Note all that is wrong now, and nothing else; return what is new.

        :param key: returns what two that are the same have in common; by
            default their text
        """
        former, now = self.problems, {key(one): one for one in found}
        self.problems = now
        return [one for subject, one in now.items() if subject not in former]

    def log_new(
        self,
        log: Callable[..., object],
        found: Iterable[T],
        key: Callable[[T], Hashable] = str,
    ) -> None:
        """Log what :meth:`list_new` returns, each in a line of its own.

        :param log: a method of a logger, such as its ``error``
        """
        for one in self.list_new(found, key):
            log(
                '%(prefix)s%(problem)s',
                {'prefix': self._prefix, 'problem': one},
            )
