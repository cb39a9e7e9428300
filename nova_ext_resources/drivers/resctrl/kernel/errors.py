# SPDX-License-Identifier: Apache-2.0

"""What can go wrong between this package and the kernel's resctrl.

::

    ResctrlError
      - ResctrlMissing     (no resctrl, or mounted otherwise than needed)
      - ResctrlRefused     (the kernel does not accept a value)
      - NoFreeClosid       (no class of service is left)
      - NoFreeRmid         (no monitoring id is left)
      - ResctrlBusy        (another program holds the lock, or the kernel is
                            not done)
      - GroupGone          (a group was removed behind our back)
      - NoFolder           (a name is that of a file)
      - ResctrlFailed      (any other error of the kernel)
      - ResctrlMalformed   (a file holds something else than documented)
      - NotApplied         (what was written is not what is read back)

All of them are below
:class:`~nova_ext_resources.exception.ExtResourcesError`; the plugins turn
them into ``DiscoveryFailed``, ``CapacityExceeded`` and ``EnforcementFailed``.
"""

import errno

from nova_ext_resources import exception
from nova_ext_resources.objects import alarm as alarm_mod


class ResctrlError(exception.ExtResourcesError):
    """Base of all.

    :ivar action: what was tried, such as ``write nova-.../schemata``
    :ivar reason: what happened, with the kernel's own words from
        ``info/last_cmd_status`` where it left some; and what to do
    """

    message = 'resctrl: could not %(action)s: %(reason)s'


class ResctrlMissing(ResctrlError):
    """There is no resctrl where it should be."""

    alarm = alarm_mod.RESCTRL_MISSING


class ResctrlRefused(ResctrlError):
    """The kernel does not accept the value (EINVAL)."""


class NoFreeClosid(ResctrlError):
    """No group can be made: classes or ways have run out (ENOSPC)."""


class NoFreeRmid(ResctrlError):
    """Nothing more can be monitored: ids are used up, or still in limbo."""


class ResctrlBusy(ResctrlError):
    """Another program is changing it (EBUSY, EAGAIN, or the lock is held)."""


class GroupGone(ResctrlError):
    """The group was removed in the meantime (ENOENT, ENODEV)."""


class NoFolder(ResctrlError):
    """The name is that of a file and not of a group (ENOTDIR)."""


class ResctrlFailed(ResctrlError):
    """Any other error, such as EIO, EACCES or EPERM."""


class ResctrlMalformed(ResctrlError):
    """A file does not hold what the kernel documents."""


class NotApplied(ResctrlError):
    """The kernel took a value and shows another."""


_CLASSES: dict[int, type[ResctrlError]] = {
    errno.EINVAL: ResctrlRefused,
    errno.ENOSPC: NoFreeClosid,
    errno.EBUSY: ResctrlBusy,
    errno.EAGAIN: ResctrlBusy,
    errno.ENOENT: GroupGone,
    errno.ENODEV: GroupGone,
    errno.ENOTDIR: NoFolder,
}

#: Error number of the kernel -> what to do.
ADVICE = {
    errno.EACCES: 'the privileged helper needs CAP_DAC_OVERRIDE: keep this '
    'capability in [ext_resources_resctrl_privsep] capabilities and, if '
    'nova-compute runs in a container, in the container',
    errno.EROFS: 'resctrl is mounted read-only, at least for nova-compute: on '
    'the host, run mount -o remount,rw; for a container, mount resctrl into '
    'it without "ro"; for a systemd unit, set ProtectKernelTunables=no',
    errno.EPERM: 'this process lacks the privilege; see the documentation of '
    'the enforcer resctrl about privileges',
}

#: Why the kernel makes no group for a while (EBUSY), see its documentation of
#: ``max_threshold_occupancy``.
IN_LIMBO = (
    'the free monitoring ids are still in limbo: the cache still holds data '
    'of their former groups'
)

#: What the kernel writes when the last command succeeded.
_OK = 'ok'


def make_missing(root: str, found: str) -> ResctrlMissing:
    """Make the error for a mount that is not there.

    :param root: where it should be, as the options name it
    :param found: what there is instead
    """
    return ResctrlMissing(
        action=f'read {root}',
        reason=f'{found}, so resctrl is not mounted there; mount it (mount -t '
        f'resctrl resctrl {root}), or correct [ext_resources_resctrl] path. '
        'If resctrl cannot be mounted, the CPU or the kernel has no resource '
        'control',
    )


def from_os_error(action: str, err: OSError, status: str) -> ResctrlError:
    """Make the typed error of a failed file operation.

    :param status: content of ``info/last_cmd_status``, '' if unknown
    """
    said = status.strip()
    parts = [
        err.strerror or str(err),
        f'the kernel says: {said}' if said and said != _OK else '',
        ADVICE.get(err.errno or 0, ''),
    ]
    error = _CLASSES.get(err.errno or 0, ResctrlFailed)
    return error(action=action, reason='; '.join(filter(None, parts)))
