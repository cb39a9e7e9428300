# SPDX-License-Identifier: Apache-2.0

"""Why a process that names a server is not believed, and what to do. Pure."""

import dataclasses

USERS_OPTION = '[ext_resources_resctrl] qemu_users'

_RESTORE = 'restore the connection of nova-compute to the hypervisor'

#: What to do for a server of which nothing can be known.
SILENCE = (
    f'{_RESTORE} (see the log of nova-compute). The hypervisor does not '
    'report the running guests, and no process of this server was found'
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Doubt:
    """A process that names a server, and is not believed.

    :ivar subject: what the doubt is about; the same for all processes of
        which the same is to be logged
    :ivar advice: what to do, and why
    :ivar may_be_it: whether it may be the server's after all, so that the
        server is found once this is done
    """

    pid: int
    subject: str
    advice: str
    may_be_it: bool = True


def of_user(pid: int, uid: int) -> Doubt:
    """Doubt a process of a user that libvirt is not known to run QEMU as."""
    return Doubt(
        pid=pid,
        subject=f'user {uid}',
        advice=f'add user {uid} of process {pid} to {USERS_OPTION} if '
        'libvirt runs QEMU as this user',
    )


def of_machine(pid: int, machine: str) -> Doubt:
    """Doubt a process in the cgroup of a machine that no known guest has."""
    return Doubt(
        pid=pid,
        subject=machine,
        advice=f'find out which libvirt runs the machine {machine}: process '
        f'{pid} is in the cgroup of this machine, and the libvirt of '
        'nova-compute reports no guest in this machine',
    )


def of_silence(pid: int) -> Doubt:
    """Doubt a process in a machine's cgroup while no guest is known yet."""
    return Doubt(
        pid=pid,
        subject='silence',
        advice=f'{_RESTORE}: process {pid} is in the cgroup of a machine, and '
        'the hypervisor has not reported yet the guest of this machine',
    )


def of_guest(pid: int, machine: str, owner: str, *, is_sure: bool) -> Doubt:
    """Doubt a process in the cgroup of another server's machine.

    :param is_sure: whether nobody but root can have made this cgroup
    """
    unless = (
        ''
        if is_sure
        else ', unless a user of this host has made the cgroup, which '
        'nova-compute cannot rule out'
    )
    return Doubt(
        pid=pid,
        subject=f'server {owner}{unless}',
        advice=f'isolate server {owner}, whose guest may have broken out of '
        f'QEMU: process {pid} is in the cgroup of its machine {machine} and '
        f'names another server{unless}',
        may_be_it=False,
    )
