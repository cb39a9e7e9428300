# SPDX-License-Identifier: Apache-2.0

"""Another release of the package while servers run."""

from typing import Any

from dev.cloud import ledger
from dev.cloud import told
from dev.gate import audit
from dev.gate import package
from dev.gate import site as sites

#: What the manual says to restart when all hosts have the other release.
_AFTER_HOSTS = ('nova-scheduler', 'nova-api')


def play(site: sites.Site) -> None:
    """Servers run on while the previous release is installed, then this."""
    made = [
        site.boot(f'kept-{host}', 'two', host=host).id for host in site.hosts
    ]
    audit.check(site)
    before = _look(site)
    _go_back(site)
    _check(site, before, 'the previous release')
    _go_on(site)
    _check(site, before, 'this release')
    for server_id in made:
        site.delete(server_id)


def _go_back(site: sites.Site) -> None:
    """Install the previous release as the manual says."""
    site.cloud.halt(*site.hosts)
    for host in site.hosts:
        package.downgrade_ledger(site.cloud.folder.get_ledger(host))
    package.install(site.wheels['previous'])
    site.cloud.resume(*site.hosts)
    site.cloud.restart(*_AFTER_HOSTS)


def _go_on(site: sites.Site) -> None:
    """Upgrade one host after the other, with both releases at work."""
    package.install(site.wheels['this'])
    for host in site.hosts:
        site.cloud.restart(host)
        _use(site)
    site.cloud.restart(*_AFTER_HOSTS)


def _check(site: sites.Site, before: Any, release: str) -> None:
    now = _look(site)
    told.expect(
        now == before,
        f'with {release}, running servers keep {before}',
        now,
    )
    _use(site)


def _use(site: sites.Site) -> None:
    """Boot a server wherever it fits, and delete it."""
    made = site.boot('passing', 'one').id
    audit.check(site)
    site.delete(made)


def _look(site: sites.Site) -> Any:
    """Return what servers hold on each host: units, and what is applied."""
    return {
        host: (
            [
                (one.consumer_uuid, one.rp_uuid, one.amount, one.units)
                for one in ledger.read(site.cloud.folder.get_ledger(host))
            ],
            site.machines[host].list_in_force(),
        )
        for host in site.hosts
    }
