# SPDX-License-Identifier: Apache-2.0

"""Fills the fields of a request as Go fills a struct.

Keys match in any case, unknown ones are ignored, and after a value of the
wrong type the remaining fields are filled all the same: PATCH ignores the
error and uses what it got.
"""

from collections.abc import Mapping
from typing import Any

from nova_ext_resources.testing.rmd_simulator import gojson

UINT32_MAX = 2**32 - 1


class Binder:
    """Reads fields, and remembers the first complaint.

    :ivar complaint: in Go's words, '' when there is none
    """

    def __init__(self, struct: str) -> None:
        self._struct = struct
        self.complaint = ''

    def field(self, data: Any, key: str) -> Any:
        """Return the value of ``key``; the last of several spellings wins."""
        found = None
        if isinstance(data, Mapping):
            for name, value in data.items():
                if name.lower() == key and value is not None:
                    found = value
        return found

    def section(self, data: Any, key: str) -> Mapping[str, Any]:
        """Read a nested object, empty when it is absent."""
        value = self.field(data, key)
        if value is None or isinstance(value, Mapping):
            return value or {}
        self._complain(value, key, 'struct')
        return {}

    def text(self, data: Any, key: str) -> str:
        """Read a string, '' when it is absent."""
        value = self.field(data, key)
        if value is None or is_text(value):
            return value or ''
        self._complain(value, key, 'string')
        return ''

    def texts(self, data: Any, key: str) -> list[str]:
        """Read a list of strings."""
        value = self.field(data, key)
        if value is None:
            return []
        if not isinstance(value, list):
            self._complain(value, key, '[]string')
            return []
        result = []
        for item in value:
            if not is_text(item) and item is not None:
                self._complain(item, key, 'string')
            result.append(item if is_text(item) else '')
        return result

    def number(self, data: Any, key: str) -> int | None:
        """Read an unsigned 32-bit integer."""
        value = self.field(data, key)
        if value is None:
            return None
        if not isinstance(value, gojson.Number):
            self._complain(value, key, 'uint32')
            return None
        if not value.isdecimal() or int(value) > UINT32_MAX:
            self._complain(value, key, 'uint32', literal=value)
            return None
        return int(value)

    def plugins(self, data: Any, key: str) -> dict[str, dict[str, Any]]:
        """Read a map of maps."""
        value = self.field(data, key)
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self._complain(value, key, 'map[string]map[string]interface {}')
            return {}
        result: dict[str, dict[str, Any]] = {}
        for name in sorted(value):
            settings = value[name]
            if settings is not None and not isinstance(settings, Mapping):
                self._complain(settings, key, 'map[string]interface {}')
                continue
            result[name] = gojson.sort_map(settings or {})
        return result

    def root(self, data: Any, go_type: str) -> None:
        """Complain unless the body is an object."""
        if not isinstance(data, Mapping):
            self.complaint = (
                f'json: cannot unmarshal {_kind(data)} into Go value of '
                f'type {go_type}'
            )

    def _complain(
        self, value: Any, key: str, go_type: str, literal: str = ''
    ) -> None:
        what = f'{_kind(value)} {literal}'.strip()
        self.complaint = self.complaint or (
            f'json: cannot unmarshal {what} into Go struct field '
            f'{self._struct}.{key} of type {go_type}'
        )


def is_text(value: Any) -> bool:
    """Tell a string from a number, which is kept as text too."""
    return isinstance(value, str) and not isinstance(value, gojson.Number)


def _kind(value: Any) -> str:
    if isinstance(value, gojson.Number):
        return 'number'
    if isinstance(value, bool):
        return 'bool'
    if isinstance(value, str):
        return 'string'
    return 'array' if isinstance(value, list) else 'object'
