# SPDX-License-Identifier: Apache-2.0

"""Where kernels answer otherwise than the model, and why that is left so.

The tables are part of the documentation. A row says on which kernels (series,
or "all") which answers to which operation differ, or which test cannot pass.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
import csv
import dataclasses
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / 'doc' / 'source' / 'contributor' / 'kernels.csv'

#: Tests that cannot pass on a kernel, and why.
TESTS = TABLE.with_name('kernels_tests.csv')

ALL = 'all'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One operation that two answer in their own way."""

    operation: str
    kernel: str
    model: str

    def __str__(self) -> str:
        return (
            f'{self.operation}: the kernel says "{self.kernel}", the model '
            f'"{self.model}"'
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table."""

    kernels: frozenset[str]
    difference: Difference

    def is_for(self, series: str) -> bool:
        return bool(self.kernels & {ALL, series})


def read(path: pathlib.Path = TABLE) -> list[Row]:
    """Return the table.

    :raises ValueError: a row has no reason, or is for no kernel
    """
    return [
        Row(
            kernels=kernels,
            difference=Difference(
                operation=_strip(one['Operation']),
                kernel=_strip(one['Kernel']),
                model=_strip(one['Model']),
            ),
        )
        for kernels, one in _read(path)
    ]


def read_tests(series: str, path: pathlib.Path = TESTS) -> frozenset[str]:
    """Return the tests that cannot pass on a kernel.

    :raises ValueError: a row has no reason, or is for no kernel
    """
    return frozenset(
        one['Test'] for kernels, one in _read(path) if {ALL, series} & kernels
    )


def _read(
    path: pathlib.Path,
) -> Iterator[tuple[frozenset[str], dict[str, str]]]:
    """Return the kernels of each row, and the row."""
    with path.open(encoding='utf-8', newline='') as stream:
        for row in csv.DictReader(stream):
            kernels = frozenset(row['Kernels'].split())
            if not row['Reason'].strip() or not kernels:
                raise ValueError(f'no reason, or no kernel: {row}')
            yield kernels, row


def _strip(text: str) -> str:
    """Return it without what makes it a literal in the documentation."""
    return text.removeprefix('``').removesuffix('``')


def compare(
    kernel: Sequence[Mapping[str, str]], model: Sequence[Mapping[str, str]]
) -> list[Difference]:
    """Return each difference once, in the order in which they came.

    :raises ValueError: they were not asked the same
    """
    if not kernel:
        raise ValueError('the kernel was asked nothing')
    found = []
    for one, other in zip(kernel, model, strict=True):
        if one['operation'] != other['operation']:
            raise ValueError(
                f'the kernel was asked "{one["operation"]}", and the model '
                f'"{other["operation"]}"'
            )
        if one['answer'] != other['answer']:
            found.append(
                Difference(
                    operation=one['operation'],
                    kernel=one['answer'],
                    model=other['answer'],
                )
            )
    return list(dict.fromkeys(found))


def judge(
    found: Iterable[Difference], series: str, table: Iterable[Row]
) -> tuple[list[Difference], list[Difference]]:
    """Return what is not in the table, and what of it did not occur."""
    listed = {row.difference for row in table if row.is_for(series)}
    there = list(found)
    unlisted = [one for one in there if one not in listed]
    return unlisted, sorted(listed - set(there), key=str)
