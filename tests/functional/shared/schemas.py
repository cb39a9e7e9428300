# SPDX-License-Identifier: Apache-2.0

"""JSON schemas that are looked at once a process, not once a request.

placement checks at each request that its schema is a valid one, which takes
longer than to check the request. Nova makes a validator for each request and
each response, and a class for the validator. Both keep schemas in modules,
and change none.
"""

from collections.abc import Callable, Hashable
import functools
from typing import Any

import jsonschema
from nova.api.validation import validators


def install() -> None:
    """Have Nova and placement look at each schema once."""
    # What jsonschema.validate takes when a schema names no draft.
    draft: Any = jsonschema.validators.validator_for({})
    draft.check_schema = staticmethod(once(draft.check_schema))
    validators._SchemaValidator = once(validators._SchemaValidator)


def once(look: Callable[..., Any]) -> Callable[..., Any]:
    """Remember what ``look`` returns for a schema, which comes first.

    What it raises is not remembered. Schemas are told apart by identity: they
    are dicts. Each is kept, so that no other one gets its identity.
    """
    seen: dict[Hashable, tuple[Any, Any]] = {}

    @functools.wraps(look)
    def find(schema: Any, *args: Any, **kwargs: Any) -> Any:
        key = id(schema), args, tuple(sorted(kwargs.items()))
        if key not in seen:
            seen[key] = schema, look(schema, *args, **kwargs)
        return seen[key][1]

    return find
