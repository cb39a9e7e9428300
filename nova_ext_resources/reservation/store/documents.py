# SPDX-License-Identifier: Apache-2.0

"""A request as a JSON text, and back."""

import dataclasses
import functools
import json
from typing import Any

from nova_ext_resources.objects.documents import foreign_data
from nova_ext_resources.objects import requirements
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import server_demand


#: Demands that are kept, to be the same object for many requests: that takes
#: less time and less memory than one for each.
_FLYWEIGHTS = 1_000


def write_request(request: plan_request.Request) -> str:
    """Return a request as JSON, with the names of its fields."""
    return json.dumps(dataclasses.asdict(request), default=_write_other)


def _write_other(value: object) -> object:
    match value:
        case frozenset():
            return sorted(value)
        case plan_request.Affinity():
            return value.name
    raise TypeError(f'{value!r} has no place in a request')


def read_request(text: str) -> plan_request.Request:
    """Make a request of its JSON.

    :raises ValueError: a field is missing or wrong
    """
    try:
        document = foreign_data.load_json(text)
        return plan_request.Request(
            **{
                **document,
                'demand': _read_demand(json.dumps(document['demand'])),
                'during': interval.Interval(**document['during']),
                'affinity': plan_request.Affinity[document['affinity']],
                # Requests of before the first manager have none.
                'at_end': plan_request.AtEnd(
                    document.get('at_end', plan_request.AtEnd.KEEP)
                ),
            }
        )
    except foreign_data.UNREADABLE as err:
        raise ValueError(
            f'the text is not a request: {err!r} in {text}'
        ) from err


@functools.lru_cache(_FLYWEIGHTS)
def _read_demand(text: str) -> server_demand.Demand:
    """Make a demand of its JSON; the same one for all of a flavor."""
    document: dict[str, Any] = foreign_data.load_json(text)
    asked = document['requirement']
    groups = tuple(requirements.RequestGroup(**one) for one in asked['groups'])
    return server_demand.Demand(
        **{
            **document,
            'requirement': requirements.Requirement(
                **{**asked, 'groups': groups}
            ),
            'traits': {
                suffix: server_demand.Traits(
                    required=frozenset(one['required']),
                    forbidden=frozenset(one['forbidden']),
                )
                for suffix, one in document['traits'].items()
            },
            'cells': tuple(document['cells']),
        }
    )
