# SPDX-License-Identifier: Apache-2.0

"""Data that others wrote: JSON, and the numbers in it. Pure.

Others are operators, services, and other releases of this package, on this
host or on another one. Whatever their data contain must cost their own source
only. So each reader loads them here, catches :data:`UNREADABLE`, and does
without that source, or raises an error of its own.
"""

import json
import math
from typing import Any, NoReturn

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
        raise ValueError(f'{_show(twice)} is there twice')
    return found


DECODER = json.JSONDecoder(
    parse_constant=_refuse_constant, parse_float=_read_float
)


def load_json(text: str | bytes) -> Any:
    """Load JSON. Its numbers are finite, and none of its keys is repeated.

    :raises ValueError: it is no such JSON
    """
    try:
        found = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_float=_read_float,
            object_pairs_hook=_make_object,
        )
        _check_characters(found, text)
    except RecursionError as err:
        raise ValueError('it is nested too deeply') from err
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


def _check_characters(found: Any, text: str | bytes) -> None:
    """Refuse halves of characters, which no file and no database takes.

    :raises ValueError: there is one
    """
    escape = '\\u' if isinstance(text, str) else b'\\u'
    if not text.isascii() or escape in text:  # type: ignore[operator]
        json.dumps(found, ensure_ascii=False).encode()
