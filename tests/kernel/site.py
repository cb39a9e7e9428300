# SPDX-License-Identifier: Apache-2.0

"""A host as a deployer sets it up: user, helper, rootwrap and sudoers.

In a guest all of ``/`` is memory, so that it writes where the documentation
says.
"""

import functools
import pathlib
import pwd
import shutil
import stat
import subprocess
import sys

USER = 'nova'

#: That libvirt starts QEMU as.
HYPERVISOR = 'libvirt-qemu'

ROOT = pathlib.Path(__file__).resolve().parents[2]

#: What a distribution's package of Nova brings.
_SUDOERS = (
    f'{USER} ALL = (root) NOPASSWD: '
    '/usr/bin/nova-rootwrap /etc/nova/rootwrap.conf *\n'
)

_ROOTWRAP = """[DEFAULT]
filters_path = /etc/nova/rootwrap.d
exec_dirs = /usr/bin,/bin
use_syslog = False
"""

#: sudo takes the environment away.
_PROGRAM = """#!/bin/sh
export PYTHONPATH={root} PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore
exec {python} {python_folder}/{name} "$@"
"""

#: The words before ``privsep-helper``, see nova.utils.get_root_helper.
ROOTWRAP = ('sudo', 'nova-rootwrap', '/etc/nova/rootwrap.conf')
SUDO = ('sudo',)


@functools.cache
def set_up() -> None:
    """Make the user, its rights and its programs."""
    for user in (USER, HYPERVISOR):
        try:
            pwd.getpwnam(user)
        except KeyError:
            subprocess.run(['useradd', '--system', user], check=True)
    pathlib.Path('/etc/nova/rootwrap.d').mkdir(parents=True)
    pathlib.Path('/etc/nova/nova.conf').write_text('[DEFAULT]\n')
    pathlib.Path('/etc/nova/rootwrap.conf').write_text(_ROOTWRAP)
    folder = pathlib.Path(sys.executable).parent
    for name in ('nova-rootwrap', 'privsep-helper'):
        path = pathlib.Path('/usr/bin', name)
        path.write_text(
            _PROGRAM.format(
                root=ROOT,
                python=sys.executable,
                python_folder=folder,
                name=name,
            )
        )
        path.chmod(0o755)
    for path in (folder, pathlib.Path(sys.executable).resolve(), ROOT):
        _open_up(path)


def allow(*, rootwrap: bool) -> None:
    """Let the user start the helper, by rootwrap or by our own file."""
    given = pathlib.Path('/etc/sudoers.d')
    shutil.rmtree(given, ignore_errors=True)
    given.mkdir(mode=0o750)
    path = given / 'nova'
    if rootwrap:
        path.write_text(_SUDOERS)
    else:
        shutil.copy(ROOT / 'etc' / 'nova_ext_resources' / 'sudoers', path)
    path.chmod(0o440)
    subprocess.run(['visudo', '-c'], check=True, capture_output=True)


def _open_up(path: pathlib.Path) -> None:
    """Let everybody get to a path: Python may be below /root."""
    for folder in path.parents:
        mode = folder.stat().st_mode
        if not mode & stat.S_IXOTH:
            folder.chmod(stat.S_IMODE(mode) | 0o055)
