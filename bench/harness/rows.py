# SPDX-License-Identifier: Apache-2.0

"""What a benchmark answers."""

from collections.abc import Sequence
import dataclasses
import json
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One comparison: ours must not be more than ``goal`` times the peer.

    :ivar what: what was measured
    :ivar ours: in ``unit``
    :ivar peer: the same of somebody else, or a limit that was set
    :ivar ratio: ours to peer; of pairs measured side by side it is the
        median, and so not exactly the quotient of the two medians
    :ivar goal: the largest ratio that is good; None only informs
    """

    what: str
    ours: float
    peer: float
    ratio: float
    goal: float | None
    unit: str = 'ms'

    @property
    def is_ok(self) -> bool:
        return self.goal is None or self.ratio <= self.goal

    def to_dict(self) -> dict[str, Any]:
        data = dataclasses.asdict(self)
        del data['unit']
        return data


def make_limit_row(what: str, ours: float, limit: float, unit: str) -> Row:
    """Make the row of a figure that must stay below a limit."""
    return Row(
        what=what,
        ours=ours,
        peer=limit,
        ratio=round(ours / limit, 3),
        goal=1.0,
        unit=unit,
    )


def make_row(what: str, ours: float, limit: float | None, unit: str) -> Row:
    """Make the row of a figure; without a limit it only informs."""
    if limit is not None:
        return make_limit_row(f'{what} : its limit', ours, limit, unit)
    return Row(what=what, ours=ours, peer=0, ratio=0, goal=None, unit=unit)


def format_table(rows: Sequence[Row]) -> str:
    width = max(len(row.what) for row in rows)
    lines = [f'{"":{width}} {"ours":>10} {"peer":>10} {"ratio":>7}  goal']
    lines.extend(
        f'{row.what:{width}} {row.ours:>10.1f} {row.peer:>10.1f} '
        f'{_format_ratio(row):>7}  {_format_goal(row)} ({row.unit})'
        for row in rows
    )
    return '\n'.join(lines)


def format_json(name: str, rows: Sequence[Row]) -> str:
    return json.dumps(
        {
            'name': name,
            'rows': [row.to_dict() for row in rows],
            'ok': all(row.is_ok for row in rows),
        }
    )


def _format_ratio(row: Row) -> str:
    """Return three digits of what is far below one, too."""
    return f'{row.ratio:.3f}' if row.ratio >= 0.1 else f'{row.ratio:.3g}'


def _format_goal(row: Row) -> str:
    if row.goal is None:
        return '-'
    return f'<= {row.goal} {"ok" if row.is_ok else "MISSED"}'
