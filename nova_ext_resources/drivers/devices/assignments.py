# SPDX-License-Identifier: Apache-2.0

"""Which devices servers hold. Pure."""

from collections.abc import Mapping

from nova_ext_resources.objects import assignment


class DeviceAssignments:
    """What servers hold of the providers of one plugin.

    :ivar prefix: begins the keys of these providers
    :ivar resource_class: of the options
    :ivar names: key of a provider, without the prefix -> the devices, of that
        class
    :ivar others: the same of other classes, which the options had before
    """

    def __init__(
        self,
        entries: Mapping[str, assignment.Entry],
        prefix: str,
        resource_class: str,
    ) -> None:
        self.prefix = prefix
        self.resource_class = resource_class
        self.names: dict[str, frozenset[str]] = {}
        self.others: dict[str, frozenset[str]] = {}
        for entry in entries.values():
            for one in entry.assignments:
                if one.rp_key.startswith(prefix):
                    key = one.rp_key.removeprefix(prefix)
                    is_own = one.resource_class == resource_class
                    found = self.names if is_own else self.others
                    found[key] = found.get(key, frozenset()) | frozenset(
                        one.units.get('names', ())
                    )

    @property
    def all_names(self) -> frozenset[str]:
        """Return the devices, whatever their provider and class."""
        return frozenset[str]().union(
            *self.names.values(), *self.others.values()
        )
