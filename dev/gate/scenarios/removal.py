# SPDX-License-Identifier: Apache-2.0

"""Nova goes on without the package."""

import dataclasses
import functools

from dev.cloud.full import cloud as clouds
from dev.cloud import options
from dev.cloud import settings as cloud_settings
from dev.cloud import tree
from dev.gate import package
from dev.gate import site as sites

_NO_INVENTORY = {'ext_resources': {'inventory_providers': ''}}


def play(site: sites.Site) -> None:
    """The package is removed while a server runs, and installed again."""
    settings = site.cloud.settings
    kept = site.boot('kept', 'plain').id
    _empty(site)
    _remove(site)
    other = site.boot('other', 'plain').id
    for name, status in (('stop', 'SHUTOFF'), ('start', 'ACTIVE')):
        site.run('server', name, other)
        site.wait_for(status, other)
    site.delete(other)
    _bring_back(site, settings)
    site.delete(site.boot('again', 'two').id)
    site.delete(kept)


def _empty(site: sites.Site) -> None:
    """Have the hosts offer nothing, and wait until they do not."""
    site.configure(
        {
            host: options.merge(own, _NO_INVENTORY)
            for host, own in site.cloud.settings.per_host.items()
        }
    )
    site.wait_until(
        functools.partial(_is_empty, site),
        'a host that offers nothing removes its providers',
    )


def _is_empty(site: sites.Site) -> bool:
    return not tree.list_names(site.cloud.placement)


def _has_ways(site: sites.Site) -> bool:
    ours = tree.list_ours(site.cloud.placement)
    return any(tree.WAYS in one.amounts for one in ours)


def _remove(site: sites.Site) -> None:
    """Uninstall it, and take its names out of the configuration."""
    site.cloud.halt(*_names(site))
    package.uninstall()
    plain = {'DEFAULT': {'compute_driver': package.install_driver()}}
    site.cloud.configure(
        dataclasses.replace(site.cloud.settings, nova=plain, per_host={})
    )
    site.cloud.resume(*_names(site))


def _bring_back(site: sites.Site, settings: cloud_settings.Settings) -> None:
    site.cloud.halt(*_names(site))
    package.install(site.wheels['this'])
    site.cloud.configure(settings)
    site.cloud.resume(*_names(site))
    site.wait_until(
        functools.partial(_has_ways, site),
        'a host that has the package again publishes its resources',
    )


def _names(site: sites.Site) -> tuple[str, ...]:
    return (*site.hosts, *clouds.CONTROL)
