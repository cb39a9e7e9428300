# SPDX-License-Identifier: Apache-2.0

"""Devices of one host, a pool of all, and why a server got neither."""

from collections.abc import Mapping
import functools
import json
import pathlib
from typing import Any

from dev.cloud import options
from dev.cloud import settings as cloud_settings
from dev.cloud import told
from dev.cloud import tree
from dev.gate import audit
from dev.gate import refused
from dev.gate import site as sites
from nova_ext_resources.testing import cpu
from nova_ext_resources.testing import fpga
from nova_ext_resources.testing import sriov

_CARD = '0000:3b:00.0'
_FUNCTION = 'SRIOV_NET_VF'
_FUNCTIONS = 2

_FPGA = '0000:5e:00.0'
_REGION = f'FPGA_{_FPGA}-port0'
_REGIONS = 'FPGA'

#: What the CPUs of one host can do, and of the others not.
_TURBO = 'CUSTOM_CPU_TURBO'

_POOL = 'POOL_rack1'
_GB = 'CUSTOM_RACK1_GB'
_TOTAL = 10

_POOLS = """
pools:
  - name: rack1
    resource_class: {resource_class}
    source: file
    location: {path}
"""
_NO_POOLS = 'pools: []\n'

#: Flavor -> extra specs. The first two are for the host with the devices.
_FLAVORS = {
    'equipped': {
        'hw:cpu_policy': 'dedicated',
        f'resources:{tree.WAYS}': '2',
        f'resources_VF:{_FUNCTION}': '1',
        f'resources_FPGA:{_REGIONS}': '1',
        'trait_FPGA:CUSTOM_FPGA_INTEL': 'required',
        f'resources_POOL:{_GB}': '3',
        'group_policy': 'none',
    },
    'fast': {f'trait:{_TURBO}': 'required'},
    'stored': {f'resources_POOL:{_GB}': '3'},
    'too-stored': {f'resources_POOL:{_GB}': '5'},
    'too-equipped': {f'resources_VF:{_FUNCTION}': f'{_FUNCTIONS}'},
    'too-programmed': {f'resources_FPGA:{_REGIONS}': '1'},
}

#: Host -> provider, resource class, and by how much it is short.
Short = dict[str, list[tuple[str, str, int]]]


def play(site: sites.Site) -> None:
    """A device and a pool of all hosts; one server too many is explained."""
    settings = site.cloud.settings
    for name, specs in _FLAVORS.items():
        site.add_flavor(f'devices-{name}', specs)
    _plug_in(site)
    use(site)
    _unplug(site, settings)


def use(site: sites.Site) -> None:
    """Boot servers until both are short, and ask why.

    :raises NotAsTold: something is counted twice, or not explained
    """
    first, second = site.hosts[:2]
    equipped, fast = (
        site.boot(name, f'devices-{name}') for name in ('equipped', 'fast')
    )
    for one in (equipped, fast):
        told.expect(
            one.compute_host == first,
            f'{one.name} is on {first}, which has the devices and the CPUs',
            one.compute_host,
        )
    stored = site.boot('stored', 'devices-stored', host=second)
    audit.check(site)
    _check_pool(site, used=6)
    _explain_server(site)
    _explain_flavor(site)
    for one in (equipped, fast, stored):
        site.delete(one.id)


def list_short(explained: Mapping[str, Any]) -> Short:
    """Return what is short where, by what the command shows as JSON."""
    return {
        host['host']: [
            (one['provider'], one['resource_class'], one['short_by'])
            for one in host['shortfalls']
        ]
        for host in explained['hosts']
    }


def _check_pool(site: sites.Site, *, used: int) -> None:
    """Expect the pool once, however many hosts reach it."""
    shown = _show(site, 'pool', 'list')
    wanted = {
        'Pool': _POOL,
        'Resource Class': _GB,
        'Total': _TOTAL,
        'Reserved': 0,
        'Used': used,
        'Free': _TOTAL - used,
        'Hosts': [*site.hosts],
    }
    told.expect(shown == [wanted], f'there is one pool, {wanted}', shown)


def _explain_server(site: sites.Site) -> None:
    refused.boot(
        site,
        'too-stored',
        'devices-too-stored',
        look=functools.partial(_explain_refused, site),
    )


def _explain_refused(site: sites.Site, server_id: str) -> None:
    explained = _show(site, 'explain', '--server', server_id)
    told.expect(
        'No valid host' in explained['fault']
        and [one['action'] for one in explained['actions']] == ['create'],
        'the command shows why the server was not created',
        explained,
    )
    _expect_short(explained, {host: [(_POOL, _GB, 1)] for host in site.hosts})


def _explain_flavor(site: sites.Site) -> None:
    first, *others = site.hosts
    for name, provider, resource_class, amount in (
        ('too-equipped', f'SRIOV_{_CARD}', _FUNCTION, _FUNCTIONS),
        ('too-programmed', _REGION, _REGIONS, 1),
    ):
        explained = _show(site, 'explain', '--flavor', f'devices-{name}')
        _expect_short(
            explained,
            {
                first: [(provider, resource_class, 1)],
                **{one: [('', resource_class, amount)] for one in others},
            },
        )


def _expect_short(explained: Mapping[str, Any], wanted: Short) -> None:
    told.expect(
        list_short(explained) == wanted,
        f'the command says that {wanted} is short',
        explained['hosts'],
    )


def _show(site: sites.Site, *words: str) -> Any:
    """Return what a command about resources shows."""
    return json.loads(site.run('extended', 'resource', *words, '-f', 'json'))


def _plug_in(site: sites.Site) -> None:
    """Give the first host devices, and all a pool; wait until all are known.

    :raises NotAsTold: they are not published
    """
    lib = site.cloud.folder.lib
    size, pools = lib / 'rack1.json', lib / 'pools.yaml'
    size.write_text(json.dumps({'total': _TOTAL}))
    pools.write_text(_POOLS.format(resource_class=_GB, path=size))
    shared = {'ext_resources_shared_pool': {'pools_file': str(pools)}}
    own = _make_devices(lib)
    names = dict.fromkeys(site.hosts, 'shared_pool')
    names[site.hosts[0]] += ',sriov,fpga,cpu'
    per_host = site.cloud.settings.per_host
    site.configure(
        {
            host: options.merge(
                per_host[host],
                shared,
                own,
                sites.add_plugins(per_host[host], more),
            )
            for host, more in names.items()
        },
    )
    _wait_for_providers(
        site,
        *_name_devices(site),
        _POOL,
        *(f'{host}_{_POOL}' for host in site.hosts),
    )
    site.wait_until(
        functools.partial(_is_all_known, site),
        'placement has inventories of the devices and of the pool, and the '
        'trait of the CPUs',
    )


def _make_devices(lib: pathlib.Path) -> cloud_settings.Options:
    """Make trees as in sysfs; return the options that name them."""
    card = sriov.Sysfs(str(lib / 'sysfs-card'))
    card.add_card(_CARD)
    card.enable(_CARD, _FUNCTIONS)
    region = fpga.Sysfs(str(lib / 'sysfs-fpga'))
    region.add_card(_FPGA)
    cpus = cpu.Sysfs(str(lib / 'sysfs-cpu'))
    cpus.add_policies()
    cpus.set_no_turbo(False)
    return {
        'ext_resources_sriov': {'path': str(card.path)},
        'ext_resources_fpga': {'path': str(region.path)},
        'ext_resources_cpu': {'path': str(cpus.path)},
    }


def _name_devices(site: sites.Site) -> tuple[str, ...]:
    first = site.hosts[0]
    return f'{first}_SRIOV_{_CARD}', f'{first}_{_REGION}'


def _unplug(site: sites.Site, settings: cloud_settings.Settings) -> None:
    """Have the hosts leave the pool, and configure them as before."""
    pools = site.cloud.folder.lib / 'pools.yaml'
    changed = pools.with_suffix('.new')
    changed.write_text(_NO_POOLS)
    changed.replace(pools)
    _wait_for_providers(site, *_name_devices(site))
    site.configure(settings.per_host)
    _wait_for_providers(site)


def _wait_for_providers(site: sites.Site, *names: str) -> None:
    """Wait until there are these of cards and pools, and no others."""
    site.wait_until(
        functools.partial(_has_providers, site, {*names}),
        f'placement has of cards and pools {names}',
    )


def _has_providers(site: sites.Site, names: set[str]) -> bool:
    found = {
        one
        for one in tree.list_names(site.cloud.placement).values()
        if any(part in one for part in (_POOL, _CARD, _FPGA))
    }
    return found == names


def _is_all_known(site: sites.Site) -> bool:
    """Return whether servers can be given of each."""
    placement = site.cloud.placement
    found = tree.list_providers(placement)
    [node] = [one.uuid for one in found if one.name == site.hosts[0]]
    return {_FUNCTION, _REGIONS, _GB} <= {
        name for one in found for name in one.amounts
    } and _TURBO in tree.list_traits(placement, node)
