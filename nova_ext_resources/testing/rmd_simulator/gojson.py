# SPDX-License-Identifier: Apache-2.0

"""JSON as Go's encoding/json and go-restful read and write it.

What a client can see of it: indentation, HTML characters escaped, numbers
echoed as they were written, data after the first value ignored, and the
words in which a decoder complains.
"""

from collections.abc import Mapping
import json
from typing import Any

_WHITE_SPACE = ' \t\r\n'


class Number(str):
    """A number as it was written, such as ``3.0``."""

    __slots__ = ()


class Go(Exception):
    """What a Go decoder says."""


def _no_constant(name: str) -> Any:
    raise Go(f"invalid character '{name[0]}' looking for beginning of value")


_DECODER = json.JSONDecoder(
    parse_int=Number, parse_float=Number, parse_constant=_no_constant
)

_COMPLAINTS = {
    'Expecting value': 'looking for beginning of value',
    'Expecting property name enclosed in double quotes': (
        'looking for beginning of object key string'
    ),
    "Expecting ':' delimiter": 'after object key',
    'Invalid control character at': 'in string literal',
    'Illegal trailing comma before end of object': (
        'looking for beginning of object key string'
    ),
    'Illegal trailing comma before end of array': (
        'looking for beginning of value'
    ),
}


def decode(text: str) -> Any:
    """Decode the first value of ``text``; numbers become Number.

    :raises Go: it is no JSON
    """
    start = text.lstrip(_WHITE_SPACE)
    if not start:
        raise Go('EOF')
    try:
        value, _end = _DECODER.raw_decode(start)
    except json.JSONDecodeError as err:
        raise Go(_complain(start, err)) from err
    except RecursionError as err:
        raise Go('exceeded max depth') from err
    return value


def _complain(text: str, err: json.JSONDecodeError) -> str:
    where = err.pos
    if err.msg.startswith('Unterminated') or where >= len(text):
        return 'unexpected EOF'
    char = text[where]
    if err.msg == "Expecting ',' delimiter":
        inside = text[:where]
        is_list = inside.rfind('[') > inside.rfind('{')
        what = (
            'after array element' if is_list else 'after object key:value pair'
        )
    else:
        what = _COMPLAINTS.get(err.msg, 'looking for beginning of value')
    return f"invalid character '{char}' {what}"


def encode(value: Any, depth: int = 0) -> str:
    """Write ``value`` with the indentation of go-restful."""
    if isinstance(value, Mapping):
        items = [
            f'{_quote(str(key))}: {encode(item, depth + 1)}'
            for key, item in value.items()
        ]
        return _block('{', items, '}', depth)
    if isinstance(value, (list, tuple)):
        return _block(
            '[', [encode(item, depth + 1) for item in value], ']', depth
        )
    if isinstance(value, Number):
        return str(value)
    if isinstance(value, str):
        return _quote(value)
    return json.dumps(value)


def _block(first: str, items: list[str], last: str, depth: int) -> str:
    if not items:
        return first + last
    # go-restful gives Go a prefix of one space besides the indentation.
    inner = '\n' + ' ' * (depth + 2)
    outer = '\n' + ' ' * (depth + 1)
    return first + inner + f',{inner}'.join(items) + outer + last


def _quote(text: str) -> str:
    quoted = json.dumps(text, ensure_ascii=False)
    for char in '<>&\u2028\u2029':
        quoted = quoted.replace(char, f'\\u{ord(char):04x}')
    return quoted


def sort_map(data: Mapping[str, Any]) -> dict[str, Any]:
    """Put a Go map's keys in the order in which Go writes them."""
    return {key: data[key] for key in sorted(data)}


def through_database(value: Any) -> Any:
    """Return a plugin value as it is after a record was stored and read.

    Numbers come back as floats, and a whole float is written without a
    decimal point.
    """
    if isinstance(value, Number):
        number = float(value)
        whole = number.is_integer() and abs(number) < 1e21
        return Number(int(number) if whole else repr(number))
    if isinstance(value, Mapping):
        return {
            key: through_database(item) for key, item in sorted(value.items())
        }
    if isinstance(value, list):
        return [through_database(item) for item in value]
    return value
