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

"""Virt drivers of Nova with extended resources.

The drivers are imported when they are asked for: each needs libraries that
the other does not.
"""

import importlib
from typing import Any

_DRIVERS = {
    'FakeDriver': 'nova_ext_resources.virt.fake',
    'LibvirtDriver': 'nova_ext_resources.virt.libvirt',
}


def __getattr__(name: str) -> Any:
    if name not in _DRIVERS:
        raise AttributeError(f'module {__name__} has no attribute {name}')
    return getattr(importlib.import_module(_DRIVERS[name]), name)
