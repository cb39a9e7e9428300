# SPDX-License-Identifier: Apache-2.0

"""What hypothesis may try, and how long.

Runs are the same everywhere, so that a failure is not a matter of luck.
``HYPOTHESIS_PROFILE=search`` looks elsewhere each time, and longer.
"""

from collections.abc import Iterator
import copy
import functools
import json
import operator
import os
from typing import Any

import hypothesis
from hypothesis import strategies as st
import yaml

from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import class_inventory

# The contracts are inherited by several test classes; that only matters to
# the database of examples, which is not used. How long examples take to make
# says more about a busy machine than about them.
_COMMON: dict[str, Any] = {
    'deadline': None,
    'database': None,
    'suppress_health_check': [
        hypothesis.HealthCheck.differing_executors,
        hypothesis.HealthCheck.too_slow,
    ],
}

hypothesis.settings.register_profile(
    'same', max_examples=150, derandomize=True, **_COMMON
)
hypothesis.settings.register_profile('search', max_examples=2000, **_COMMON)
hypothesis.settings.load_profile(os.environ.get('HYPOTHESIS_PROFILE', 'same'))

#: How many examples the profile tries.
EXAMPLES: int = hypothesis.settings().max_examples

#: As wide as the widest cache mask of today's CPUs, and a little more.
MASK_BITS = 24

_any_masks = st.integers(min_value=0, max_value=(1 << MASK_BITS) - 1)

#: A few long runs, which numbers drawn at random seldom have.
_masks_of_runs = st.lists(
    st.tuples(
        st.integers(min_value=0, max_value=MASK_BITS - 8),
        st.integers(min_value=1, max_value=8),
    ),
    min_size=1,
    max_size=4,
).map(
    lambda runs: functools.reduce(
        operator.or_, (bitmask.make_run(*run) for run in runs)
    )
)

masks = st.one_of(_any_masks, _masks_of_runs)

amounts = st.integers(min_value=-1, max_value=MASK_BITS + 1)

#: (whether to take, how many to take or which one to give back)
steps = st.lists(
    st.tuples(st.booleans(), st.integers(min_value=1, max_value=12)),
    max_size=20,
)


@st.composite
def inventories(draw: st.DrawFn) -> class_inventory.Inventory:
    """Any inventory that placement would store."""
    total = draw(st.integers(min_value=1, max_value=class_inventory.MAX_INT))
    min_unit = draw(st.integers(min_value=1, max_value=total))
    return class_inventory.Inventory(
        total=total,
        reserved=draw(st.integers(min_value=0, max_value=total)),
        min_unit=min_unit,
        max_unit=draw(
            st.integers(min_value=min_unit, max_value=class_inventory.MAX_INT)
        ),
        step_size=draw(
            st.integers(min_value=1, max_value=class_inventory.MAX_INT)
        ),
        allocation_ratio=draw(
            st.floats(min_value=0.0625, max_value=10000, width=32)
        ),
    )


#: Values that JSON and YAML can write, and that a reader may not expect.
#: Python's JSON reads 1e400 as infinity.
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 1.5, 4.0, 1e308, 1 << 31, 10**30, 10**400),
    *(float('inf'), float('-inf'), float('nan')),
    *('', 'x', ' 7f ', '0x7f', '1_0', '-5', '1-', '7-3', '0-99999999999'),
    *('\u0661', '\ud800', '9' * 5000, 'f' * 300, '[[', 'Infinity'),
    *([], [1], [[]], [[1, 2, 3, 4]], [None], {}, {'a': 1}, {'': {}}),
)


@st.composite
def damaged(draw: st.DrawFn, good: Any) -> Any:
    """A document in which other values are in places, or other keys."""
    data = copy.deepcopy(good)
    for _ in range(draw(st.integers(min_value=1, max_value=3))):
        places = [*_list_places(data)]
        if not places:
            return draw(st.sampled_from(ODD))
        part, key = draw(st.sampled_from(places))
        odd = copy.deepcopy(draw(st.sampled_from(ODD)))
        match draw(st.sampled_from(('put', 'put', 'put', 'rename', 'delete'))):
            case 'rename' if isinstance(part, dict):
                part[str(odd)] = part.pop(key)
            case 'delete':
                del part[key]
            case _:
                part[key] = odd
    return data


def list_damaged(good: Any) -> Iterator[Any]:
    """Return a document with each odd value in each place."""
    for number in range(len([*_list_places(good)])):
        for odd in ODD:
            data = copy.deepcopy(good)
            part, key = [*_list_places(data)][number]
            part[key] = copy.deepcopy(odd)
            yield data


def _list_places(data: Any) -> Iterator[tuple[Any, Any]]:
    """Return each part of a document with each of its keys."""
    match data:
        case dict():
            keys: list[Any] = [*data]
        case list():
            keys = [*range(len(data))]
        case _:
            return
    for key in keys:
        yield data, key
        yield from _list_places(data[key])


#: Texts that are no values at all, or that take long to read.
ODD_JSON = (
    *('', 'x', '{', '[' * 100_000, 'null', '"', '1e400', '{"a":1,"a":2}'),
    *('NaN', '-Infinity', '\x00', '\ud800', '9' * 5000, '{"v":1e999}'),
)
ODD_YAML = (
    *('!!bool foo', "!!int ''", '!!float z', '!!timestamp x', '2026-99-99'),
    *('!!binary "%"', '!!map x', '!!int [1]', '!!null x', '!!set {a, a}'),
    *('&a [*a]', '[*b]', '[' * 400, '{[a]: 1}', '{<<: 1}', '=', '\x00'),
    *('010', '1:30', '0b11', '1_000', '.inf', '.nan', '1.0e+400', '{a, a}'),
    *('"\\UFFFFFFFF"', '!!python/name:os.getcwd', 'a\n---\nb', '%YAML 9.9'),
)

_MARK = 'ODD-TEXT'


@st.composite
def damaged_json(draw: st.DrawFn, good: Any) -> str:
    """The text of a damaged document, which may be no JSON at all."""
    text = json.dumps(draw(_marked(good)))
    return text.replace(f'"{_MARK}"', draw(st.sampled_from(ODD_JSON)))


@st.composite
def damaged_yaml(draw: st.DrawFn, good: Any) -> str:
    """The text of a damaged document, which may be no YAML at all."""
    text: str = yaml.safe_dump(draw(_marked(good)))
    return text.replace(_MARK, draw(st.sampled_from(ODD_YAML)))


def _marked(good: Any) -> st.SearchStrategy[Any]:
    """A damaged document, or one in which a mark is in one place."""
    places = [*_list_places(good)]

    def mark(number: int) -> Any:
        data = copy.deepcopy(good)
        part, key = [*_list_places(data)][number]
        part[key] = _MARK
        return data

    numbers = st.sampled_from(range(len(places)))
    return st.one_of(damaged(good), numbers.map(mark), st.just(_MARK))
