# SPDX-License-Identifier: Apache-2.0

"""A site with Blazar, and two users who have a project each."""

from collections.abc import Iterator
import contextlib
import dataclasses
from typing import Any

from dev.cloud.full import blazar as blazars
from dev.cloud.full import rest
from dev.cloud.full import tenant as tenants
from dev.cloud import options
from dev.cloud import settings as cloud_settings
from dev.cloud import tree
from dev.gate import package
from dev.gate import reserving
from dev.gate import site as sites

_PACKAGES = 'blazar-packages'

#: What Blazar is told beside the database.
_OWN: cloud_settings.Options = {
    # The fewest seconds.
    'extended:instance': {'hosts_interval': '10'},
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """What there is of a resource class on all hosts."""

    total: int
    used: int
    reserved: int
    available: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Who asks, and the API of Blazar for this user."""

    tenant: tenants.Tenant
    api: rest.Rest


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Leasing:
    """What the scenarios of Blazar share.

    :ivar admin: Blazar's API for the administrator
    :ivar user: who reserves
    :ivar other: who has nothing to do with it
    """

    site: sites.Site
    store: reserving.Store
    admin: rest.Rest
    user: User
    other: User

    def show(self, key: str) -> Any:
        """Return a reservation as its user sees it."""
        return self.user.api.get(f'/extended/reservations/{key}')[
            'reservation'
        ]

    def boot(self, name: str, flavor: str, key: str | None = None) -> str:
        """Boot a server of the user, in a reservation or in none.

        :returns: its uuid
        :raises NotAsTold: it is not ACTIVE
        """
        made = self.site.boot(
            name, flavor, reservation=key, sdk=self.user.tenant.sdk
        )
        return str(made.id)

    def read_amounts(self, resource_class: str, start: str = 'now') -> Amounts:
        """Return what there is of a class on all hosts from some time on."""
        found = self.admin.get(f'/extended/capacity/amounts?from={start}')
        first = next(
            one
            for one in found['capacity']
            if one['resource_class'] == resource_class
        )
        return Amounts(
            total=first['total'],
            used=first['used'],
            reserved=first['reserved'],
            available=first['available'],
        )

    def expect_amounts(
        self,
        resource_class: str,
        *,
        reserved: int,
        taken: int = 0,
        start: str = 'now',
    ) -> None:
        """Wait until the API says of a class what placement says.

        Blazar reads the hosts every ten seconds.

        :param reserved: by all reservations at that time
        :param taken: of it by servers, which do not count as used again
        :raises NotAsTold: it says something else
        """
        self.site.wait_until(
            lambda: (
                self.read_amounts(resource_class, start)
                == self._read_placement(resource_class, reserved, taken)
            ),
            f'Blazar says of {resource_class} what placement says, and that '
            f'{reserved} are reserved from {start} on',
        )

    def _read_placement(
        self, resource_class: str, reserved: int, taken: int
    ) -> Amounts:
        amounts = [
            one.amounts[resource_class]
            for one in tree.list_providers(self.site.cloud.placement)
            if resource_class in one.amounts
        ]
        free = sum(one.available for one in amounts)
        used = sum(one.used for one in amounts)
        return Amounts(
            total=free + used,
            used=used - taken,
            reserved=reserved,
            available=free + taken - reserved,
        )


@contextlib.contextmanager
def opened(site: sites.Site, name: str) -> Iterator[Leasing]:
    """Run Blazar, the filter and the manager of reservations.

    :param name: of the scenario, which the users are named after
    """
    packages = site.cloud.folder.lib / _PACKAGES
    if not packages.exists():
        package.unpack(site.wheels['this'], packages)
    store = reserving.open_store(site)
    blazar = blazars.Blazar(
        site.cloud, options.merge(store.own, _OWN), packages=packages
    )
    with blazar, store.commands.managed(seconds=site.cloud.stop_seconds):
        user, other = (
            tenants.make(site.cloud, f'{name}-{one}')
            for one in ('red', 'blue')
        )
        yield Leasing(
            site=site,
            store=store,
            admin=blazar.connect(site.cloud.sdk),
            user=User(tenant=user, api=blazar.connect(user.sdk)),
            other=User(tenant=other, api=blazar.connect(other.sdk)),
        )
        blazar.check()
