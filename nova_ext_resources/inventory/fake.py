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

"""A host with cache domains that exists in the configuration only.

The reference for writers of inventory providers, and the test double: it
reports the same tree as ``rmd``, of any size, without any hardware.
"""

from typing import ClassVar

from oslo_config import cfg

from nova_ext_resources.conf import fake as conf
from nova_ext_resources import exception
from nova_ext_resources.inventory import rmd
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import inventory as inventory_obj
from nova_ext_resources.objects import provider
from nova_ext_resources.objects import resource
from nova_ext_resources.plugins import base
from nova_ext_resources import rdt


class FakeInventory(base.InventoryProvider):
    """Reports made-up cache domains, for tests and for trying things."""

    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = conf.OPTS

    def __init__(self, options: cfg.ConfigOpts.GroupAttr, host: str) -> None:
        super().__init__(options, host)
        if options.cpus % (2 * options.sockets):
            raise exception.InvalidConfiguration(
                option='[ext_resources_fake] cpus',
                value=options.cpus,
                reason='it must be a multiple of twice the sockets '
                f'({options.sockets})',
            )
        if options.reserved_ways >= options.ways:
            raise exception.InvalidConfiguration(
                option='[ext_resources_fake] reserved_ways',
                value=options.reserved_ways,
                reason=f'it must be less than the ways ({options.ways})',
            )

    def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
        return (
            resource.ResourceDefinition(
                name=rdt.CLOS,
                units='classes of service',
                description='Made-up classes of service.',
            ),
            resource.ResourceDefinition(
                name=rdt.WAYS,
                type='cache_ways',
                units='ways',
                description='Made-up ways of a last-level cache.',
            ),
        )

    def discover(self) -> tuple[provider.HostProvider, ...]:
        self._fail_if_told()
        return (
            self._make_rdt(),
            *(self._make_cache(i) for i in range(self.options.sockets)),
        )

    def _fail_if_told(self) -> None:
        if not self.options.failure_file:
            return
        try:
            with open(self.options.failure_file, encoding='utf-8') as file:
                reason = file.read().strip()
        except FileNotFoundError:
            return
        except (OSError, UnicodeDecodeError) as err:
            reason = str(err)
        raise exception.DiscoveryFailed(
            plugin='fake', reason=reason or 'it was told to fail'
        )

    def _make_rdt(self) -> provider.HostProvider:
        total = self.options.num_closids
        return provider.HostProvider(
            key=rdt.RDT,
            inventories={
                rdt.CLOS: inventory_obj.Inventory(
                    total=total, reserved=rmd.KEPT_CLOSIDS, max_unit=1
                )
            },
            units={rdt.CLOS: {'free': total - rmd.KEPT_CLOSIDS}},
        )

    def _make_cache(self, cache_id: int) -> provider.HostProvider:
        ways, reserved = self.options.ways, self.options.reserved_ways
        free = bitmask.make_run(reserved, ways - reserved)
        return provider.HostProvider(
            key=rdt.make_l3_key(cache_id),
            parent_key=rdt.RDT,
            inventories={rdt.WAYS: inventory_obj.Inventory(total=ways)},
            trackers={rdt.WAYS: 'cache_ways'},
            units={rdt.WAYS: {'free': bitmask.format_mask(free)}},
            implied={rdt.WAYS: rdt.CLOS},
            cpus=self._list_cpus(cache_id),
            traits=frozenset({rdt.CAT_TRAIT}),
        )

    def _list_cpus(self, cache_id: int) -> str:
        cores = conf.list_domains(self.options)[cache_id]
        return bitmask.format_list(frozenset().union(*cores))
