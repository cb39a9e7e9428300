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

"""Whether a server has what was sold to it. Pure."""

from collections.abc import Iterator, Mapping

from nova_ext_resources.objects import assignment
from nova_ext_resources import rdt
from nova_ext_resources.resctrl import arranging
from nova_ext_resources.resctrl import choosing
from nova_ext_resources.resctrl import groups
from nova_ext_resources.resctrl import layout
from nova_ext_resources.resctrl import schemata


def find_fault(
    scene: choosing.Scene, entry: assignment.Entry, group: groups.Group
) -> str:
    """Say in what a group's schemata are not what they should be, or ''.

    What may be moved between servers is right anywhere between the bounds
    that were sold.
    """
    for text in _list_pool_faults(scene, entry):
        return text
    for one in choosing.list_twice(entry):
        return (
            f'it was sold two runs of ways in {one.rp_key}, and can have one'
        )
    own = layout.Wanted(ways=choosing.list_ways(entry.assignments)).join(
        layout.Wanted(ways=_list_runs(scene, entry))
    )
    plan = layout.plan(
        scene.tree,
        scene.layout,
        sold={entry.consumer_uuid: own.masks},
        whole=entry.consumer_uuid,
    )
    wanted = schemata.merge(
        [plan[group.name], own.make_schemata(scene.tree.default.schemata)]
    )
    return schemata.find_deviation(wanted, group.schemata) or _find_intruder(
        scene.tree, group, own.masks
    )


def _list_pool_faults(
    scene: choosing.Scene, entry: assignment.Entry
) -> Iterator[str]:
    for one in rdt.pick(entry.assignments, *arranging.CLASSES):
        if scene.layout.is_offline(choosing.find_cache(one)):
            continue
        key = (one.rp_key, one.resource_class)
        pool = arranging.make_pool(scene, key, added=entry)
        if pool is None:
            yield f'there is no {key[1]} in {key[0]} any more'
            continue
        if pool.is_overdrawn:
            yield pool.explain_lack()
        least, most = pool.demands[entry.consumer_uuid]
        amount = pool.amounts[entry.consumer_uuid]
        if not least <= amount <= most:
            yield (
                f'it has {amount} of {key[1]} in {key[0]}, and not '
                f'{_format_range(least, most)}'
            )


def _format_range(least: int, most: int) -> str:
    return f'{least}' if least == most else f'{least} to {most}'


def _list_runs(
    scene: choosing.Scene, entry: assignment.Entry
) -> dict[schemata.Cache, schemata.Ways]:
    """Give the burst ways that it has, which are right as they are."""
    return {
        cache: schemata.Ways(
            arranging.find_run(scene, entry.consumer_uuid, cache)
        )
        for cache in map(
            choosing.find_cache, rdt.pick(entry.assignments, rdt.BURST)
        )
    }


def _find_intruder(
    tree: groups.Tree,
    group: groups.Group,
    ways: Mapping[schemata.Cache, int],
) -> str:
    for cache, mask in ways.items():
        for name in layout.find_intruders(tree, group.name, cache, mask):
            return f'{name} may fill its ways {mask:x} of {cache.key}'
    return ''
