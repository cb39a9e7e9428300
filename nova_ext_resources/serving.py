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

"""Which enforcer serves whom, and what it may answer. Pure."""

from collections.abc import Sequence

from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.plugins import base


def check_answer(
    real: Sequence[assignment.Assignment], entry: assignment.Entry
) -> None:
    """Make sure that what goes into the ledger are assignments.

    :raises (AttributeError, TypeError): an enforcer gave something else
    :raises ValueError: it gave more or fewer than it got, or of others
    """
    given = [(one.rp_uuid, one.resource_class) for one in real]
    held = [(one.rp_uuid, one.resource_class) for one in entry.assignments]
    if given != held:
        raise ValueError(f'it has put {given} into force instead of {held}')


def serves(enforcer: base.Enforcer, resource_class: str) -> bool:
    """Tell whether it puts a resource class into force."""
    classes = enforcer.RESOURCE_CLASSES
    return classes is None or resource_class in classes


def serves_any(enforcer: base.Enforcer, entry: assignment.Entry) -> bool:
    """Tell whether it has anything to do for a server."""
    return any(
        serves(enforcer, one.resource_class) for one in entry.assignments
    )


def order(entry: assignment.Entry) -> tuple[tuple[str, int], ...]:
    """Give what to sort servers by: the height of their units."""
    return tuple(
        (one.rp_key, _find_height(one))
        for one in sorted(entry.assignments, key=lambda one: one.rp_key)
    )


def _find_height(one: assignment.Assignment) -> int:
    try:
        return bitmask.parse_mask(one.units['mask'])
    except (KeyError, TypeError, ValueError):
        return 0
