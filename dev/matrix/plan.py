# SPDX-License-Identifier: Apache-2.0

"""Which tests play which operation, and why others do not.

All of it is in ``tests/functional/matrix.yaml``.
"""

from collections.abc import Mapping
import dataclasses
import fnmatch
from typing import Any

import yaml

from dev.matrix import suites

PATH = suites.ROOT.joinpath(*suites.FUNCTIONAL, 'matrix.yaml')

#: Before each name in the file.
_PREFIX = '.'.join((*suites.FUNCTIONAL, ''))


class PlanError(Exception):
    """The file is not as it should be; the text says what to do."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why some cells have no tests.

    :ivar columns: patterns for columns
    :ivar operations: empty: all
    """

    text: str
    columns: tuple[str, ...]
    operations: frozenset[str] = frozenset()

    def is_of(self, operation: str, column: str) -> bool:
        """Return whether it explains a cell."""
        return (not self.operations or operation in self.operations) and any(
            fnmatch.fnmatchcase(column, one) for one in self.columns
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The cells of the table.

    :ivar columns: the words of each: backend, kind of server and driver
    :ivar cells: operation -> column -> full names of its tests; none: the
        reason why not
    """

    columns: tuple[str, ...]
    cells: Mapping[str, Mapping[str, frozenset[str] | Reason]]
    reasons: tuple[Reason, ...]

    def list_tests(self) -> frozenset[str]:
        """Return the full names of all tests of the table."""
        return frozenset(
            test
            for row in self.cells.values()
            for cell in row.values()
            if not isinstance(cell, Reason)
            for test in cell
        )


def read() -> Plan:
    """Return the plan of this checkout.

    :raises PlanError: the file names a test or class that does not exist, or
        a cell has neither tests nor a reason, or both
    """
    text = PATH.read_text(encoding='utf-8')
    return make(yaml.safe_load(text), suites.read())


def make(document: Mapping[str, Any], classes: suites.Classes) -> Plan:
    """Return the plan that a document describes; raises as :func:`read`."""
    columns = document['columns']
    players = {
        column: frozenset(_PREFIX + one for one in names)
        for column, names in columns.items()
    }
    reasons = tuple(
        Reason(
            text=one['text'],
            columns=tuple(one['columns']),
            operations=frozenset(one.get('operations', ())),
        )
        for one in document['reasons']
    )
    cells = {}
    for operation, names in document['operations'].items():
        played = _sort_tests(names, players, classes)
        cells[operation] = {
            column: _make_cell(operation, column, played, reasons)
            for column in columns
        }
    made = Plan(columns=tuple(columns), cells=cells, reasons=reasons)
    _check(made, players, classes)
    return made


def _sort_tests(
    names: list[str],
    players: Mapping[str, frozenset[str]],
    classes: suites.Classes,
) -> dict[str, frozenset[str]]:
    """Return column -> tests.

    :raises PlanError: a test does not exist, or is of no column
    """
    found: dict[str, set[str]] = {column: set() for column in players}
    for name in names:
        tests = suites.find_tests(classes, _PREFIX + name)
        if not tests:
            raise PlanError(f'there is no test {name}: correct {PATH.name}')
        for test in tests:
            for column in _find_columns(test, players, classes):
                found[column].add(test)
    return {column: frozenset(tests) for column, tests in found.items()}


def _find_columns(
    test: str, players: Mapping[str, frozenset[str]], classes: suites.Classes
) -> list[str]:
    """Return the columns of a test: what is named nearest to it counts."""
    owner, _dot, method = test.rpartition('.')
    for one in suites.list_ancestors(classes, owner):
        for name in (f'{one}.{method}', one):
            found = [c for c, names in players.items() if name in names]
            if found:
                return found
    raise PlanError(f'{test} is of no column: name a class that it derives of')


def _make_cell(
    operation: str,
    column: str,
    played: Mapping[str, frozenset[str]],
    reasons: tuple[Reason, ...],
) -> frozenset[str] | Reason:
    if tests := played[column]:
        return tests
    for one in reasons:
        if one.is_of(operation, column):
            return one
    raise PlanError(
        f'no test plays {operation!r} in {column!r}: write one, or a reason '
        f'into {PATH.name}'
    )


def _check(
    made: Plan, players: Mapping[str, frozenset[str]], classes: suites.Classes
) -> None:
    """Refuse what is named for nothing."""
    used = [cell for row in made.cells.values() for cell in row.values()]
    for one in made.reasons:
        if one not in used:
            raise PlanError(f'no cell needs this reason: {one.text}')
        if unknown := one.operations - made.cells.keys():
            raise PlanError(f'{sorted(unknown)} are no operations: {one.text}')
        for operation in one.operations:
            for column in made.columns:
                if one.is_of(operation, column) and not isinstance(
                    made.cells[operation][column], Reason
                ):
                    raise PlanError(
                        f'{operation!r} has tests in {column!r}, and a reason '
                        f'why not: {one.text}'
                    )
    for name in frozenset().union(*players.values()) - classes.keys():
        if not suites.find_tests(classes, name):
            raise PlanError(f'there is no class or test {name}')
