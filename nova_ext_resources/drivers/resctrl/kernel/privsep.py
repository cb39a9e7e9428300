# SPDX-License-Identifier: Apache-2.0

"""The writes that nova-compute, which is no root, must not do itself.

A helper of oslo.privsep does them, as root with one capability. It writes
nowhere but to the groups of Nova and to the default one, so that an attacker
in nova-compute gains nothing by it but control over the caches of servers.

oslo.privsep reads its own options, group
``[ext_resources_resctrl_privsep]``, from the global configuration.
"""

import errno
from typing import Any

from oslo_privsep import capabilities
from oslo_privsep import priv_context

from nova_ext_resources.drivers.resctrl.kernel import system

context = priv_context.PrivContext(
    'nova_ext_resources.drivers.resctrl',
    cfg_section='ext_resources_resctrl_privsep',
    pypath=f'{__name__}.context',
    # Groups are made and removed in folders of mode 0555 (the mount, and
    # mon_groups in it; fs/kernfs/dir.c: kernfs_create_root), where a root
    # without it gets EACCES. Writing to files, which root may write, and
    # moving threads, which is checked by user, take none.
    capabilities=[capabilities.CAP_DAC_OVERRIDE],
)


def call(name: str, root: str, path: str, *arguments: Any) -> None:
    """Have the helper do one of ``system.CALLS`` to a group of Nova.

    :param root: a mount of resctrl
    :param path: below it; one of ``system.PATHS``
    :raises OSError: EPERM, it is something else, or the helper does not
        work; or as the kernel gives it
    """
    try:
        failure = attempt(name, root, path, *arguments)
    # Each version of oslo.privsep has errors of its own for a helper that
    # does not start, ends, or does not answer.
    except Exception as err:
        raise OSError(
            errno.EPERM,
            f'the privileged helper of [{context.cfg_section}] does not work '
            f'({type(err).__name__}: {err}); allow nova-compute to start '
            'privsep-helper, in sudoers or exec_dirs of rootwrap.conf',
        ) from err
    if failure:
        raise OSError(*failure)


@context.entrypoint
def attempt(
    name: str, root: str, path: str, *arguments: Any
) -> tuple[int | None, str] | None:
    """Do it, in the helper; return number and text of an OSError.

    What it raises is no answer of the kernel: also "no such file" may be of
    sudo, and not of a group.
    """
    try:
        with system.checked(name, root, path) as (folder, last):
            system.CALLS[name](last, *arguments, dir_fd=folder)
    except OSError as err:
        return err.errno, err.strerror or str(err)
    return None
