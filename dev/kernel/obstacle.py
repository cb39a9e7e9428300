# SPDX-License-Identifier: Apache-2.0

"""What keeps the tests on real kernels from running, in one sentence."""

import os
import platform
import shutil

#: Programs and the packages that bring them, see bindep.txt.
PROGRAMS = {
    'apt-get': 'apt, which only Debian has',
    'dpkg-source': 'dpkg-dev',
    'depmod': 'kmod',
    'gcc': 'gcc',
    'meson': 'meson',
    'ninja': 'ninja-build',
    'flex': 'flex',
    'bison': 'bison',
    'pkg-config': 'pkg-config',
    'setpriv': 'util-linux',
    'sudo': 'sudo',
}


class Obstacle(Exception):
    """It cannot run here, or not now; the text says what to do."""


def check() -> None:
    """Look whether this machine can run it at all.

    :raises Obstacle: it cannot
    """
    if platform.machine() != 'x86_64':
        raise Obstacle(
            f'the kernels are for x86_64, and this is {platform.machine()}'
        )
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            raise Obstacle(f'{program} is missing: install {package}')
    if os.geteuid():
        raise Obstacle(
            'needs root, which has to read all that the guest shall see '
            'of this machine'
        )
