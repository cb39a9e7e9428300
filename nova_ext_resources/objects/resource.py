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

"""What a resource is, for people and for programs."""

import dataclasses
import re

import os_resource_classes

from nova_ext_resources import exception

#: As the Placement API has it: 255 characters at most, prefix included.
_CUSTOM_NAME = re.compile(r'CUSTOM_[A-Z0-9_]{1,248}')


def is_resource_class(name: str) -> bool:
    """Tell whether placement has, or would take, a class of that name."""
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
    :ivar units: of what one unit is, such as ``ways``
    :ivar description: one sentence for people
    :raises InvalidResource: the name is no resource class
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
                reason=f'this is no resource class; {better} would be one',
            )
