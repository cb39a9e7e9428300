# SPDX-License-Identifier: Apache-2.0

"""Words that the query of a request may have.

Any other is refused. A misspelt one would be passed over, and the answer would
be one to another question.
"""

from collections.abc import Mapping
from typing import Any

from blazar.api.v1 import utils as api_utils
import flask

_PARTS = frozenset({'from', 'until', 'zone', 'step'})
_PROJECTS = frozenset({'all', 'project'})

#: Request -> its words; a request that is not here has none.
WORDS: Mapping[str, frozenset[str]] = {
    'list_reservations': frozenset(
        {'all', 'from', 'limit', 'marker', 'scope', 'state', 'until', 'zone'}
    ),
    'list_amounts': _PARTS,
    'list_fits': _PARTS | {'flavor', 'resources'},
    'list_capacity_changes': frozenset({'all'}),
    'delete_capacity_change': frozenset({'force'}),
    'list_subscriptions': frozenset({'all'}),
    'list_quotas': _PROJECTS,
    'list_limits': _PROJECTS,
}


def check() -> Any:
    """Return what to answer to a request with a word of no meaning, or None.

    :returns: a 400 that names the word
    """
    name = (flask.request.endpoint or '').rpartition('.')[2]
    known = WORDS.get(name, frozenset())
    unknown = sorted(flask.request.args.keys() - known)
    if not unknown:
        return None
    can_have = (
        f'known parameters: {", ".join(sorted(known))}'
        if known
        else 'this query has no parameters'
    )
    text = f'{unknown[0]!r} is not a parameter of this query; {can_have}'
    return api_utils.render_error_message(400, text, 400)
