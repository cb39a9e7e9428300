# SPDX-License-Identifier: Apache-2.0

"""Data that others wrote: JSON, YAML, and the numbers in them. Pure.

Others are operators, services, and other releases of this package, on this
host or on another one. Whatever their data contain must cost their own source
only. So each reader loads them here, catches :data:`UNREADABLE`, and does
without that source, or raises an error of its own.
"""

import json
import math
import re
from typing import Any, NoReturn

import yaml

#: The largest number of units that placement can store (a signed 32-bit
#: database integer; its API schema refuses more).
MAX_INT = 0x7FFFFFFF

#: Of ``allocation_ratio``. Placement's column has single precision: what is
#: less would be 0 there.
MIN_RATIO, MAX_RATIO = 2.0**-126, 10_000

#: What reading something raises that was written as something else.
UNREADABLE = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)

#: Characters of a value that a message shows.
_MAX_SHOWN = 40

#: Characters that the aliases of a YAML file may stand for together.
_MAX_ALIASED = 1_000_000

#: Numbers that are the same in YAML 1.1 and 1.2. In others, 010 is 8 or 10,
#: and 1:30 is 90 or a text.
_NUMBER = re.compile(
    r'[-+]?(0|[1-9][0-9]*)|0x[0-9a-fA-F]+'
    r'|[-+]?([0-9]+\.[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?'
)


def read_whole(value: Any, low: int = 0, high: int = MAX_INT) -> int:
    """Return a whole number.

    :raises ValueError: it is something else, or out of bounds
    """
    # A bool is an int, too.
    if type(value) is not int or not low <= value <= high:
        raise ValueError(
            f'{_show(value)} is not a whole number from {low} to {high}'
        )
    return value


def read_capacity(value: Any) -> int:
    """Return how much a provider has, or how much of it is used.

    :raises ValueError: it is no such number
    """
    return read_whole(value, high=MAX_INT * MAX_RATIO)


def read_number(value: Any, low: float, high: float) -> int | float:
    """Return a number, which may have a fraction.

    :raises ValueError: it is something else, or out of bounds
    """
    # False for NaN, too.
    if type(value) not in (int, float) or not low <= value <= high:
        raise ValueError(
            f'{_show(value)} is not a number from {low:g} to {high:g}'
        )
    found: int | float = value
    return found


def _show(value: Any) -> str:
    return repr(value)[:_MAX_SHOWN]


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f'{name} is not a number')


def _read_float(text: str) -> float:
    found = float(text)
    if not math.isfinite(found):
        raise ValueError(f'{text[:_MAX_SHOWN]} is too large')
    return found


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _value in pairs]
        twice = next(one for one in keys if keys.count(one) > 1)
        raise ValueError(f'{_show(twice)} occurs twice')
    return found


DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_read_float
)
# json.loads() makes one for each text, which takes longer than a short text.
_STRICT = json.JSONDecoder(
    parse_constant=_refuse_constant,
    parse_float=_read_float,
    object_pairs_hook=_make_object,
)


def load_json(text: str | bytes) -> Any:
    """Load JSON. Its numbers are finite, and none of its keys is repeated.

    :raises ValueError: it is no such JSON
    """
    try:
        if isinstance(text, bytes):
            text = text.decode(json.detect_encoding(text), 'surrogatepass')
        found = _STRICT.decode(text)
        _check_characters(found, text)
    except RecursionError as err:
        raise ValueError('the JSON is nested too deeply') from err
    return found


def load_first(text: str) -> tuple[Any, int]:
    """Load the JSON with which a text begins; return where it ends, too.

    For documents that are read for each of thousands of hosts. Most of the
    time of :func:`load_json` is for repeated keys, which are taken here.

    :raises ValueError, RecursionError: it is no such JSON
    """
    found, end = DECODER.raw_decode(text)
    _check_characters(found, text)
    return found, end


def _check_characters(found: Any, text: str) -> None:
    """Refuse halves of characters, which no file and no database takes.

    :raises ValueError: there is one
    """
    if not text.isascii() or '\\u' in text:
        json.dumps(found, ensure_ascii=False).encode()


class _Loader(yaml.SafeLoader):
    """Refuses what YAML's own loader takes without a word.

    Of a repeated key it uses the last value. Aliases may stand for more than
    any memory holds: a message shows each of them in full.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._sizes: dict[yaml.Node, int] = {}
        self._aliased = 0

    def compose_node(
        self, parent: yaml.Node | None, index: int
    ) -> yaml.Node | None:
        is_alias = self.check_event(yaml.AliasEvent)
        node = super().compose_node(parent, index)
        if node is None:
            return None
        if not is_alias:
            self._sizes[node] = self._measure(node)
        elif node not in self._sizes:
            _refuse(
                'an alias refers to the node that contains it', node.start_mark
            )
        else:
            self._aliased += self._sizes[node]
        if self._aliased > _MAX_ALIASED:
            _refuse('aliases of this node are too large', node.start_mark)
        return node

    def _measure(self, node: yaml.Node) -> int:
        if isinstance(node, yaml.ScalarNode):
            return 1 + len(node.value)
        parts = node.value
        if isinstance(node, yaml.MappingNode):
            parts = [part for pair in node.value for part in pair]
        return 1 + sum(self._sizes[one] for one in parts)

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        # Later, merged keys are among them.
        node = super().compose_mapping_node(anchor)
        keys = set()
        for key, _value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in keys:
                    _refuse(f'{key.value} occurs twice', key.start_mark)
                keys.add(key.value)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            found = super().construct_object(node, deep=deep)
            if isinstance(found, str):
                found.encode()
        except UNREADABLE:
            kind = node.tag.rpartition(':')[2]
            _refuse(
                f'{_show(node.value)} is not of type {kind}', node.start_mark
            )
        is_odd = type(found) in (int, float) and not (
            _NUMBER.fullmatch(node.value)
        )
        if is_odd or (type(found) is float and not math.isfinite(found)):
            _refuse(
                f'{node.value[:_MAX_SHOWN]} is not a number for every reader '
                'of YAML; write decimal digits, or a text in quotes',
                node.start_mark,
            )
        return found


def _refuse(problem: str, mark: yaml.Mark) -> NoReturn:
    raise yaml.MarkedYAMLError(problem=problem, problem_mark=mark)


def load_yaml(text: str) -> Any:
    """Load YAML. Its numbers are finite, and none of its keys is repeated.

    :raises ValueError: it is no such YAML; contains the line, if it is known
    """
    try:
        # A subclass of SafeLoader.
        return yaml.load(text, Loader=_Loader)  # noqa: S506
    except yaml.MarkedYAMLError as err:
        mark = err.problem_mark or err.context_mark
        line = f'line {mark.line + 1}: ' if mark else ''
        raise ValueError(f'{line}{err.problem or err.context}') from err
    # What PyYAML raises beside its own errors, as for an escaped character
    # that does not exist.
    except (yaml.YAMLError, *UNREADABLE) as err:
        raise ValueError(f'not valid YAML: {err}') from err
