# SPDX-License-Identifier: Apache-2.0

"""The units of a server that the ledger has lost, from its group. Pure.

Placement knows the amounts. A group has exactly these, exclusively, and on
the server's CPUs, or nothing is recognized::

    way       b  a  9  8  7  6  5  4  3  2  1  0
    nova-A    .  .  .  .  .  .  .  .  A  A  A  A
    nova-B    .  .  .  .  .  .  B  B  B  .  .  .

In placement A has four ways and B has two: A gets ``00f``, and B remains
unknown. It may have been changed by hand, or be the group of another time.
"""

from collections.abc import Mapping
import dataclasses

from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.kernel import schemata
from nova_ext_resources.drivers.resctrl.policy import choice
from nova_ext_resources.drivers.resctrl.policy import machine as machine_mod
from nova_ext_resources.drivers.resctrl.policy import ownership
from nova_ext_resources.drivers.resctrl.policy import verify
from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask


def recover_units(
    tree: groups.Tree,
    machine: machine_mod.HostMachine,
    entries: Mapping[str, assignment.Entry],
    entry: assignment.Entry,
) -> assignment.Entry | None:
    """Return an entry with the units of its group; None when in doubt.

    :param entries: of the other servers
    :param entry: without units
    """
    group = tree.ours.get(entry.consumer_uuid)
    if group is not None:
        masks = schemata.get_masks(group.schemata)
        assignments = tuple(_read(one, masks) for one in entry.assignments)
        entry = dataclasses.replace(entry, assignments=assignments)
    if any(_is_unknown(one) for one in entry.assignments):
        return None
    whole = {**entries, entry.consumer_uuid: entry}
    owned = ownership.build(tree, machine, whole)
    try:
        chosen = choice.choose(owned, entry)
    except exception.ExtResourcesError:
        return None
    found = dataclasses.replace(entry, assignments=chosen)
    whole = {**entries, entry.consumer_uuid: found}
    owned = ownership.build(tree, machine, whole)
    return None if verify.find_problem(owned, found) else found


def _read(
    one: assignment.Assignment, masks: Mapping[schemata.Cache, int]
) -> assignment.Assignment:
    """Add the ways of a group to one assignment, where it is one of ways."""
    if one.resource_class not in ownership.OWN_WAYS:
        return one
    mask = masks.get(schemata.parse_key(one.rp_key), 0)
    if mask.bit_count() != one.amount:
        return one
    units = {**one.units, 'mask': bitmask.format_mask(mask)}
    return dataclasses.replace(one, units=units)


def _is_unknown(one: assignment.Assignment) -> bool:
    return one.resource_class in ownership.OWN_WAYS and 'mask' not in one.units
