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

"""What every group must say so that sold ways are exclusive. Pure.

Stateless on purpose: all is told from the groups themselves, so that nothing
is lost with a process.
"""

from collections.abc import Iterable, Mapping
import dataclasses

from nova_ext_resources.resctrl import groups
from nova_ext_resources.resctrl import masks
from nova_ext_resources.resctrl import schemata as schemata_mod


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What the layout depends on besides the groups.

    :ivar cpus: cache domain -> its CPUs that are online
    :ivar reserved_ways: how many ways of each domain the host keeps
    :ivar shared: cache domain -> ways that the default group has shared with
        groups of other software until we took them from it
    """

    cpus: Mapping[int, frozenset[int]]
    reserved_ways: int = 1
    shared: Mapping[int, int] = dataclasses.field(default_factory=dict)

    @property
    def online(self) -> frozenset[int]:
        return frozenset[int]().union(*self.cpus.values())


def list_domains(tree: groups.Tree) -> list[int]:
    """Give the ids of the last-level cache domains."""
    found: set[int] = set()
    for name in (*schemata_mod.L3_CONTROLS, schemata_mod.BANDWIDTH):
        found.update(tree.default.schemata.get(name, ()))
    return sorted(found)


def make_domain(
    tree: groups.Tree,
    domain: int,
    host: Host,
    *,
    ignored: str = '',
    extra: int = 0,
) -> masks.Domain:
    """Sum up what the groups have of one domain.

    :param ignored: server whose group counts as if it were not there
    :param extra: ways that count as sold besides
    """
    cache = tree.info.l3
    assert cache is not None, 'asked for ways where none can be had'
    foreign = [
        (one.mode, schemata_mod.get_ways(one.schemata, domain))
        for one in tree.foreign
    ]
    hard = (groups.EXCLUSIVE, groups.PSEUDO_LOCKED)
    plain = masks.Domain(
        cache=cache,
        default=schemata_mod.get_ways(tree.default.schemata, domain),
        foreign=masks.unite(mask for _mode, mask in foreign),
        exclusive=masks.unite(m for mode, m in foreign if mode in hard),
        locked=cache.locked.get(domain, 0),
        host_ways=host.reserved_ways,
    )
    sold = masks.unite(
        find_sold(plain, one, domain)
        for uuid, one in tree.ours.items()
        if uuid != ignored
    )
    return dataclasses.replace(plain, sold=sold | extra)


def find_sold(plain: masks.Domain, group: groups.Group, domain: int) -> int:
    """Give the ways that a group of ours has for itself, 0 for none.

    A group without a guarantee has a part of what the default group has,
    with the host's own ways in it. So has one that was only just made. Ways
    of its own are left out by both; the host's own ways tell it even where
    somebody has given all ways back to the default group.

    :param plain: the domain as if nothing were sold
    """
    mask = schemata_mod.get_ways(group.schemata, domain)
    if mask & plain.host and mask & plain.default:
        return 0
    return mask


def plan(
    tree: groups.Tree,
    host: Host,
    *,
    wanted: Mapping[str, Mapping[int, int]],
) -> dict[str, schemata_mod.Schemata]:
    """Give the masks that the default group and all of ours shall have.

    :param wanted: server -> domain -> ways, for servers whose ways are not
        to be told from their groups (yet)
    :return: group name -> schemata, of the last-level cache only
    """
    result: dict[str, dict[int, int]] = {groups.DEFAULT: {}}
    result.update({one.name: {} for one in tree.ours.values()})
    # Where there is bandwidth alone, there are no ways to lay out.
    domains = list_domains(tree) if tree.info.l3 is not None else ()
    for number in domains:
        sold = _list_sold(tree, number, host, wanted)
        domain = make_domain(tree, number, host)
        domain = dataclasses.replace(
            domain,
            default=domain.default | host.shared.get(number, 0),
            sold=masks.unite(sold.values()),
        )
        default = domain.wanted_default
        result[groups.DEFAULT][number] = default
        for uuid, one in tree.ours.items():
            rest = default if _runs_on(one, number, host) else domain.host
            result[one.name][number] = sold.get(uuid) or rest
    controls = schemata_mod.find_l3_controls(tree.default.schemata)
    return {
        name: dict.fromkeys(controls, values)
        for name, values in result.items()
    }


def _list_sold(
    tree: groups.Tree,
    number: int,
    host: Host,
    wanted: Mapping[str, Mapping[int, int]],
) -> dict[str, int]:
    """Give server -> the ways that it has for itself in a domain."""
    plain = dataclasses.replace(make_domain(tree, number, host), sold=0)
    sold = {
        uuid: find_sold(plain, one, number)
        for uuid, one in tree.ours.items()
        if uuid not in wanted
    }
    return {
        **sold,
        **{uuid: ways.get(number, 0) for uuid, ways in wanted.items()},
    }


def _runs_on(group: groups.Group, number: int, host: Host) -> bool:
    # Nobody knows where a group without CPUs runs.
    return not group.cpus or bool(
        group.cpus & host.cpus.get(number, frozenset())
    )


def find_intruders(
    tree: groups.Tree, name: str, domain: int, ways: int
) -> list[str]:
    """Give the other groups that may fill some of these ways."""
    others: Iterable[groups.Group] = (tree.default, *tree.groups.values())
    return [
        one.name or 'the default group'
        for one in others
        if one.name != name
        and ways & schemata_mod.get_ways(one.schemata, domain)
    ]
