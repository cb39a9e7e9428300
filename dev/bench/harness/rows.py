# SPDX-License-Identifier: Apache-2.0

"""What a benchmark answers."""

from collections.abc import Sequence
import dataclasses
import json
import statistics
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


def make_row(
    what: str, ours: float, limit: float | None, unit: str = 'ms'
) -> Row:
    """Make the row of a figure; without a limit it only informs."""
    if limit is not None:
        return compare(f'{what} : its limit', ours, limit, 1.0, unit)
    return compare(what, ours, 0, None, unit)


def compare(
    what: str, ours: float, peer: float, goal: float | None, unit: str = 'ms'
) -> Row:
    """Make the row of a figure and of the same of somebody else."""
    return _round(what, (ours, peer, ours / peer if peer else 0), goal, unit)


def compare_pairs(
    what: str,
    pairs: Sequence[tuple[float, float]],
    goal: float | None,
    unit: str = 'ms',
) -> Row:
    """Make the row of what was measured in pairs: ours, and the peer."""
    figures = (
        statistics.median(ours for ours, _peer in pairs),
        statistics.median(peer for _ours, peer in pairs),
        statistics.median(ours / (peer or 1) for ours, peer in pairs),
    )
    return _round(what, figures, goal, unit)


def _round(
    what: str,
    figures: tuple[float, float, float],
    goal: float | None,
    unit: str,
) -> Row:
    """Make a row without digits that mean nothing."""
    ours, peer, ratio = (
        round(one, 4) if one >= 1 else float(f'{one:.4g}') for one in figures
    )
    return Row(
        what=what, ours=ours, peer=peer, ratio=ratio, goal=goal, unit=unit
    )


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
