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

"""The writes that nova-compute, which is no root, must not do itself.

A helper of oslo.privsep does them, as root without a single capability:
the files of resctrl belong to root, and the kernel asks for nothing more. It
writes nowhere but below a mount of type resctrl, so that who has taken over
nova-compute gains nothing by it but control over caches.

oslo.privsep reads its own options, group
``[ext_resources_resctrl_privsep]``, from the global configuration.
"""

from collections.abc import Sequence

from oslo_privsep import priv_context

from nova_ext_resources.resctrl import system

context = priv_context.PrivContext(
    'nova_ext_resources.resctrl',
    cfg_section='ext_resources_resctrl_privsep',
    pypath=f'{__name__}.context',
    capabilities=[],
)


@context.entrypoint
def write(path: str, text: str) -> None:
    with system.checked(path) as (folder, name):
        system.write(name, text, dir_fd=folder)


@context.entrypoint
def assign(path: str, tids: Sequence[int]) -> None:
    with system.checked(path) as (folder, name):
        system.assign(name, tids, dir_fd=folder)


@context.entrypoint
def mkdir(path: str) -> None:
    with system.checked(path) as (folder, name):
        system.mkdir(name, dir_fd=folder)


@context.entrypoint
def rmdir(path: str) -> None:
    with system.checked(path) as (folder, name):
        system.rmdir(name, dir_fd=folder)
