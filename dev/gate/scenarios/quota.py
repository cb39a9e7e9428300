# SPDX-License-Identifier: Apache-2.0

"""Cache ways of a project, limited in keystone."""

from typing import Any

from openstack import exceptions

from dev.cloud.full import config
from dev.cloud.full import tenant as tenants
from dev.cloud import options
from dev.cloud import told
from dev.gate import audit
from dev.gate import site as sites

_SERVICE = 'compute'

#: What compares a request with the limits; the second one counts once more,
#: when placement has allocated.
_SERVICES = 'nova-api', 'nova-conductor'

_CLASS = 'class:CUSTOM_LLC_WAYS'
_WAYS = 4

#: What Nova and keystone call no limit.
_UNLIMITED = -1

_FORBIDDEN = 403


def play(site: sites.Site) -> None:
    """A project has as many cache ways as keystone allows, and no more."""
    user = tenants.make(site.cloud, 'quota')
    key = _limit(site, user)
    for name in _SERVICES:
        site.cloud.reconfigure(name, _make_options(site))
    made = [site.boot('quota-three', 'three', sdk=user.sdk).id]
    _refuse(site, user, 'two', usage=3)
    made.append(site.boot('quota-one', 'one', sdk=user.sdk).id)
    made.append(site.boot('unlimited', 'three').id)
    audit.check(site)
    site.run('limit', 'set', f'--resource-limit={_WAYS + 2}', key)
    made.append(site.boot('quota-two', 'two', sdk=user.sdk).id)
    for server_id in made:
        site.delete(server_id)
    for name in _SERVICES:
        site.cloud.reconfigure(name, {})


def _limit(site: sites.Site, user: tenants.Tenant) -> str:
    """Limit the project of a user; return the id of the limit."""
    # Nova refuses all servers where their number has no registered limit.
    where = f'--service={_SERVICE}', f'--region={options.REGION}'
    default = f'--default-limit={_UNLIMITED}'
    for name in ('servers', _CLASS):
        site.run('registered', 'limit', 'create', *where, default, name)
    return site.run(
        *('limit', 'create', *where, f'--project={user.project}'),
        *(f'--resource-limit={_WAYS}', '-f', 'value', '-c', 'id', _CLASS),
    ).strip()


def _make_options(site: sites.Site) -> Any:
    """Return what a service needs to ask keystone for limits."""
    return {
        'quota': {'driver': 'nova.quota.UnifiedLimitsDriver'},
        'oslo_limit': {
            **config.auth(site.cloud.parts, 'nova'),
            'endpoint_service_type': _SERVICE,
            'endpoint_region_name': options.REGION,
        },
    }


def _refuse(
    site: sites.Site, user: tenants.Tenant, flavor: str, *, usage: int
) -> None:
    """Ask for a server above the limit; Nova's API must say why not."""
    said, status = 'it is accepted', 0
    try:
        site.create(f'refused-{flavor}', flavor, sdk=user.sdk)
    except exceptions.HttpException as err:
        said, status = str(err.details), err.status_code
    wanted = (
        f'{_CLASS} is over limit of {_WAYS} due to current usage {usage} and '
        f'delta {sites.WAYS[flavor]}'
    )
    told.expect(status == _FORBIDDEN and wanted in said, wanted, said)
