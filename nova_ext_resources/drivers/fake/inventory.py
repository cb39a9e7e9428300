# SPDX-License-Identifier: Apache-2.0

"""A host with cache domains that exists in the configuration only.

The reference for writers of inventory providers, and the test double: it
reports the same tree as ``rmd``, of any size, without any hardware.
"""

import pathlib
from typing import ClassVar, NoReturn

from oslo_config import cfg

from nova_ext_resources.conf.drivers import fake
from nova_ext_resources.drivers import base
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.rmd import inventory
from nova_ext_resources import exception
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import reserved_units
from nova_ext_resources.objects import resource


class FakeInventory(base.InventoryProvider):
    """Reports simulated cache domains, for tests and demonstrations."""

    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = fake.OPTS

    def __init__(
        self,
        options: cfg.ConfigOpts.GroupAttr,
        host: str,
        entries: base.EntriesReader = dict,
    ) -> None:
        super().__init__(options, host, entries)
        if options.cpus % (2 * options.sockets):
            self._refuse('cpus', f'use a multiple of {2 * options.sockets}')
        if options.reserved_ways >= options.ways:
            self._refuse('reserved_ways', f'use fewer than {options.ways}')

    def _refuse(self, option: str, reason: str) -> NoReturn:
        raise exception.InvalidConfiguration(
            option=f'[ext_resources_fake] {option}',
            value=self.options[option],
            reason=reason,
        )

    def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
        return classes.define(classes.CLOS, classes.WAYS)

    def discover(self) -> tuple[host_provider.HostProvider, ...]:
        self._check_failure_file()
        ways, reserved = self.options.ways, self.options.reserved_ways
        free = bitmask.make_run(reserved, ways - reserved)
        offers: inventory.Offers = {
            classes.WAYS: (
                class_inventory.Inventory(total=ways),
                {'free': bitmask.format_mask(free)},
            )
        }
        caches = (
            inventory.make_cache(
                number,
                frozenset().union(*cores),
                offers,
                reserved=reserved_units.Reserved(
                    host=bitmask.make_run(0, reserved)
                ),
            )
            for number, cores in enumerate(fake.list_domains(self.options))
        )
        return (inventory.make_rdt(self.options.num_closids), *caches)

    def _check_failure_file(self) -> None:
        if not self.options.failure_file:
            return
        try:
            file = pathlib.Path(self.options.failure_file)
            reason = file.read_text(encoding='utf-8').strip()
        except FileNotFoundError:
            return
        except (OSError, UnicodeDecodeError) as err:
            reason = str(err)
        raise exception.DiscoveryFailed(
            plugin='fake', reason=reason or 'its failure_file exists'
        )
