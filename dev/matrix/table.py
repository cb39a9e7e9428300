# SPDX-License-Identifier: Apache-2.0

"""Brings plan and outcomes together, and writes the files of the page."""

from collections.abc import Mapping
import csv
import io
import pathlib
import string

from dev.matrix import plan
from dev.matrix import suites

FOLDER = suites.ROOT / 'doc' / 'source' / 'admin'

#: Of the files, before what each has.
_NAME = 'matrix_'


def make(
    planned: plan.Plan, passed: Mapping[str, bool]
) -> dict[str, list[list[str]]]:
    """Return the name of each file -> its rows.

    :param passed: test -> whether it passed; what did not run is not in it
    """
    letters = dict(zip(planned.reasons, string.ascii_lowercase, strict=False))
    drivers = list(dict.fromkeys(c.split()[-1] for c in planned.columns))
    tables = {
        driver: _make_driver(planned, driver, passed, letters)
        for driver in drivers
    }
    tables['reasons'] = [
        ['Letter', 'Reason'],
        *([letter, one.text] for one, letter in letters.items()),
    ]
    return tables


def _make_driver(
    planned: plan.Plan,
    driver: str,
    passed: Mapping[str, bool],
    letters: Mapping[plan.Reason, str],
) -> list[list[str]]:
    columns = [c for c in planned.columns if c.split()[-1] == driver]
    return [
        ['Operation', *(c.removesuffix(f' {driver}') for c in columns)],
        *(
            [operation, *(_say(row[c], passed, letters) for c in columns)]
            for operation, row in planned.cells.items()
        ),
    ]


def _say(
    cell: frozenset[str] | plan.Reason,
    passed: Mapping[str, bool],
    letters: Mapping[plan.Reason, str],
) -> str:
    if isinstance(cell, plan.Reason):
        return letters[cell]
    outcomes = [passed.get(test) for test in cell]
    for outcome, words in ((False, 'failed'), (None, 'not run')):
        if outcome in outcomes:
            return f'{words} ({outcomes.count(outcome)} of {len(cell)})'
    return f'passed ({len(cell)})'


def render(rows: list[list[str]]) -> str:
    """Return the text of a file."""
    text = io.StringIO()
    csv.writer(text, lineterminator='\n').writerows(rows)
    return text.getvalue()


def find_path(name: str, folder: pathlib.Path = FOLDER) -> pathlib.Path:
    return folder / f'{_NAME}{name}.csv'


def write(
    planned: plan.Plan,
    passed: Mapping[str, bool],
    folder: pathlib.Path = FOLDER,
) -> None:
    """Write the files that the page shows."""
    for name, rows in make(planned, passed).items():
        find_path(name, folder).write_text(render(rows), encoding='utf-8')
