# SPDX-License-Identifier: Apache-2.0

"""Tests that cannot pass on a kernel, and why.

The table is part of the documentation.
"""

import csv
import pathlib

from tools.kernel import differences

TABLE = differences.TABLE.with_name('kernels_tests.csv')


def read(series: str, path: pathlib.Path = TABLE) -> dict[str, str]:
    """Return test -> reason, for a kernel.

    :raises ValueError: a row has no reason, or is for no kernel
    """
    found = {}
    with path.open(encoding='utf-8', newline='') as stream:
        for row in csv.DictReader(stream):
            kernels = set(row['Kernels'].split())
            if not row['Reason'].strip() or not kernels:
                raise ValueError(f'no reason, or no kernel: {row["Test"]}')
            if {differences.ALL, series} & kernels:
                found[row['Test']] = row['Reason']
    return found
