# SPDX-License-Identifier: Apache-2.0

"""Yes or no, as callers of the API write it."""

from collections.abc import Mapping
from typing import Any

_WORDS = {'1': True, 'true': True, '0': False, 'false': False}


def read(found: Mapping[str, Any], name: str) -> bool:
    """Return whether a word of a query, or of a document, is set.

    :raises ValueError: it is neither yes nor no: nobody is to lose anything
        by what was meant otherwise
    """
    value = found.get(name, False)
    word = str(value).lower()
    if isinstance(value, bool | int | str) and word in _WORDS:
        return _WORDS[word]
    raise ValueError(f'{name} is {value!r}; write 1, 0, true or false')
