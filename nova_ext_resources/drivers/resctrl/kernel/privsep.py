# SPDX-License-Identifier: Apache-2.0

"""The writes that nova-compute, which is no root, must not do itself.

A helper of oslo.privsep does them, as root with one capability. It writes
nowhere but to the groups of Nova and to the default one, so that an attacker
in nova-compute gains nothing by it but control over the caches of servers.

oslo.privsep reads its own options, group
``[ext_resources_resctrl_privsep]``, from the global configuration.
"""

import errno
import os
import re
import shlex
import shutil
import sys
from typing import Any

from oslo_privsep import capabilities
from oslo_privsep import priv_context

from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import system

#: Of the options of oslo.privsep.
GROUP = 'ext_resources_resctrl_privsep'

STATUS = '/proc/self/status'

#: What starts the helper where no option says how. nova-rootwrap, where Nova
#: uses it, is named in Nova's options.
_PROGRAMS = ('sudo', 'privsep-helper')

#: The capabilities that any program started from here can get (proc(5)).
_BOUNDING_SET = re.compile(r'^CapBnd:\s*([0-9a-f]+)$', re.MULTILINE)

context = priv_context.PrivContext(
    'nova_ext_resources.drivers.resctrl',
    cfg_section=GROUP,
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


def find_problem(status: str = STATUS) -> str:
    """Return why the helper would not start or would be of no use, or ''.

    As far as can be found without starting it.

    :param status: of this process, see proc(5)
    """
    with open(status, encoding='utf-8') as file:
        found = _BOUNDING_SET.search(file.read())
    if found and not int(found[1], 16) >> capabilities.CAP_DAC_OVERRIDE & 1:
        return errors.ADVICE[errno.EACCES]
    missing = [one for one in _list_programs() if not _find_program(one)]
    if not missing:
        return ''
    return (
        f'the privileged helper cannot be started, because {missing[0]} is '
        'not on the PATH; install it, or set '
        f'[{context.cfg_section}] helper_command'
    )


def _list_programs() -> tuple[str, ...]:
    command = context.conf.helper_command
    return (shlex.split(command)[0],) if command else _PROGRAMS


def _find_program(name: str) -> str | None:
    # Of Nova's environment, which may not be on the PATH.
    own = os.path.dirname(sys.executable)
    path = os.pathsep.join([os.environ.get('PATH', os.defpath), own])
    return shutil.which(name, path=path)


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
