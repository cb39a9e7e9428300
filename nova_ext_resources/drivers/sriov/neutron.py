# SPDX-License-Identifier: Apache-2.0

"""Which devices Neutron's SR-IOV agent manages, from its own files.

The agent reports bandwidth of these cards, and sets up virtual functions for
ports. Source: *sriov_agent.ini* in Neutron's configuration reference.
"""

from collections.abc import Iterable
import dataclasses

from oslo_config import cfg

from nova_ext_resources.drivers.sriov import sysfs

_GROUP = 'sriov_nic'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NeutronAgent:
    """What the agent manages.

    :ivar interfaces: of physical functions
    :ivar excluded: addresses of virtual functions of these that it leaves
        alone
    """

    interfaces: frozenset[str] = frozenset()
    excluded: frozenset[str] = frozenset()

    def manages(
        self, one: sysfs.VirtualFunction, parent: sysfs.PhysicalFunction
    ) -> bool:
        own = self.interfaces & {port.name for port in parent.ports}
        return bool(own) and one.address not in self.excluded


def read(paths: Iterable[str]) -> NeutronAgent:
    """Read the agent's files; one that does not exist has nothing.

    :raises OSError: one cannot be read
    :raises ValueError: one is no such file
    """
    interfaces: set[str] = set()
    excluded: set[str] = set()
    for path in paths:
        sections: dict[str, dict[str, list[str]]] = {}
        try:
            cfg.ConfigParser(path, sections).parse()
        except FileNotFoundError:
            continue
        except cfg.ParseError as err:
            raise ValueError(f'{path}: {err}') from err
        options = sections.get(_GROUP, {})
        for one in _list_items(options, 'physical_device_mappings'):
            interfaces.add(one.partition(':')[2].strip())
        for one in _list_items(options, 'exclude_devices'):
            excluded.update(
                address.strip().lower()
                for address in one.partition(':')[2].split(';')
            )
    return NeutronAgent(
        interfaces=frozenset(filter(None, interfaces)),
        excluded=frozenset(filter(None, excluded)),
    )


def _list_items(options: dict[str, list[str]], name: str) -> list[str]:
    """Return the items of an option; the last value counts."""
    text = options.get(name, [''])[-1]
    return [one.strip() for one in text.split(',') if one.strip()]
