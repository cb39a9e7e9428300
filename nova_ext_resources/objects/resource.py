# SPDX-License-Identifier: Apache-2.0

"""The definition of a resource, for people and for programs."""

import dataclasses
import re

import os_resource_classes

from nova_ext_resources import exception

#: Nova's own classes, always on its root provider: none of ours.
NOVA_CLASSES = frozenset(('VCPU', 'PCPU', 'MEMORY_MB', 'DISK_GB'))

#: As the Placement API has it: 255 characters at most, prefix included.
_CUSTOM_NAME = re.compile(r'CUSTOM_[A-Z0-9_]{1,248}')


def is_resource_class(name: str) -> bool:
    """Return whether placement has, or would take, a class of that name."""
    return name in os_resource_classes.STANDARDS or bool(
        _CUSTOM_NAME.fullmatch(name)
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ResourceDefinition:
    """Name, type, units and description travel together.

    Two definitions are the same resource when their names are equal; the
    other three are for people and for the choice of a tracker.

    :ivar name: the resource class, ``CUSTOM_*`` or a standard one
    :ivar type: the tracker that counts it, such as ``count``
    :ivar units: what is counted, such as ``ways``
    :ivar description: one sentence for people
    :raises InvalidResource: the name is not a valid resource class
    """

    name: str
    type: str = dataclasses.field(default='count', compare=False)
    units: str = dataclasses.field(compare=False)
    description: str = dataclasses.field(compare=False)

    def __post_init__(self) -> None:
        if not is_resource_class(self.name):
            normal = os_resource_classes.normalize_name(
                self.name.removeprefix('CUSTOM_')
            )
            better = normal if is_resource_class(normal) else 'CUSTOM_NAME'
            raise exception.InvalidResource(
                name=self.name,
                reason=f'not a valid resource class; {better} would be valid',
            )
