# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Runs of burst ways: where they lie, and in which order they move. Pure.

The runs of a pool lie side by side in an order that stays, so that each can be
moved while no two of them overlap: of two neighbours never each is in the
other's way, so there is one that can go first.
"""

from collections.abc import Iterator, Mapping, Sequence

from nova_ext_resources.objects import bitmask
from nova_ext_resources.resctrl import schemata

#: Server -> cache -> ways.
Runs = Mapping[str, Mapping[schemata.Cache, int]]


def find_room(ways: int) -> int:
    """Give the longest run of some ways, the lowest of these."""
    runs = list(bitmask.list_runs(ways))
    if not runs:
        return 0
    start, length = max(runs, key=lambda run: (run[1], -run[0]))
    return bitmask.make_run(start, length)


def sort(current: Mapping[str, int]) -> list[str]:
    """Give servers in the order of their runs, then those without one."""
    return sorted(
        current,
        key=lambda uuid: (not current[uuid], _lowest(current[uuid]), uuid),
    )


def lay_out(room: int, sizes: Sequence[int]) -> list[int]:
    """Give runs of these sizes side by side."""
    start = _lowest(room)
    runs = []
    for size in sizes:
        runs.append(bitmask.make_run(start, size))
        start += size
    return runs


def list_steps(
    before: Runs, after: Runs
) -> Iterator[tuple[str, dict[schemata.Cache, int]]]:
    """Give server and new runs, step by step.

    After each step no run overlaps another. Only where they did so before,
    because something else has moved them, a step may overlap what has yet
    to move.
    """
    now = {uuid: dict(runs) for uuid, runs in before.items()}
    left = {uuid: dict(runs) for uuid, runs in after.items()}
    while any(left.values()):
        steps = {
            uuid: {
                cache: mask
                for cache, mask in runs.items()
                if _is_free(now, uuid, cache, mask)
            }
            for uuid, runs in left.items()
        }
        uuid = max(left, key=lambda one: len(steps[one]))
        step = steps[uuid]
        if not step:
            uuid, step = next(
                (u, dict(runs)) for u, runs in left.items() if runs
            )
        for cache, mask in step.items():
            now.setdefault(uuid, {})[cache] = mask
            del left[uuid][cache]
        yield uuid, step


def _is_free(now: Runs, uuid: str, cache: schemata.Cache, mask: int) -> bool:
    return not any(
        mask & runs.get(cache, 0) for one, runs in now.items() if one != uuid
    )


def _lowest(mask: int) -> int:
    return (mask & -mask).bit_length() - 1
