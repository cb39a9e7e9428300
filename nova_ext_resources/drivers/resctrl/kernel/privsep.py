# SPDX-License-Identifier: Apache-2.0

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

from nova_ext_resources.drivers.resctrl.kernel import system

context = priv_context.PrivContext(
    'nova_ext_resources.drivers.resctrl',
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
