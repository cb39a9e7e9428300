# SPDX-License-Identifier: Apache-2.0

"""Errors of this package as those that Nova acts on during a build."""

from collections.abc import Iterator
import contextlib
import re
from typing import Any

from nova import exception as nova_exc
from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.facts import operation as operation_obj
from nova_ext_resources import plugins

LOG = logging.getLogger(__name__)

_URL = r'https?://[^\s,;()"\']*[^\s,;()"\'.:]'

_UUID = r'[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}'

#: What belongs to others -> what the owner of a server reads of it: where
#: something is, control groups of other software, and PCI addresses.
_OTHERS = (
    (rf' at {_URL}', ''),
    (_URL, '(url)'),
    # Of urllib3.
    (r'HTTPS?Connection(Pool)?\([^)]*\): ', ''),
    (r', (GET|POST|PUT|PATCH|DELETE) /[^\s:,]*', ''),
    (r'\bLedger \S+: ', 'Ledger: '),
    (r' \(control groups: .*?\)(?=[:;,.]|$)', ''),
    (
        r'\bthe control group .+?(?=, which| may fill | and get )',
        'a control group',
    ),
    (r'(resctrl: could not \w+ )(?!nova-|info/|/|its ).+?(?=: )', r'\1(file)'),
    (r'(?<![\da-f])[\da-f]{4,8}(:[\da-f]{2}){2}\.[0-7]\b', '(device)'),
)


#: Of placement: there is no room where the server's CPUs are, or others have
#: changed allocations there faster than this host could.
_REFUSALS = (
    exception.ClaimError,
    exception.AllocationRejected,
    exception.ConcurrentUpdate,
)


class HostRefused(nova_exc.GroupAffinityViolation):
    """The host cannot take the server, but nothing is broken.

    Of all that ``spawn`` may raise, Nova reschedules this family without
    counting a failed build against the host (ComputeManager
    ``_build_and_run_instance``).
    """

    msg_fmt = '%(reason)s'


class MoveAborted(
    nova_exc.InstanceFaultRollback, nova_exc.BuildAbortException
):
    """No host can take the server as the request says; it stays as it is.

    As the latter, Nova's ``prep_resize`` tries no other host; as the former,
    it does not set the server to ERROR, and raises ``inner_exception``
    (ComputeManager ``_do_prep_resize``; before Nova 34, ``prep_resize``).
    """


@contextlib.contextmanager
def refusing_move(instance: Any, host: str) -> Iterator[None]:
    """Leave the server as it is when Nova's claim for its move fails.

    Of all that ``prep_resize`` may raise, Nova sets only
    ``InstanceFaultRollback`` back, and the server to ERROR for everything
    else if it tries no other host. Nothing has touched its guest yet, so that
    holds for errors that nobody expects, too: those of a plugin, of the
    disk, or of the network. Nova tries another host, as after a failure of
    this one.

    :param instance: the ``nova.objects.Instance`` that is the subject
    :param host: the name of this host
    :raises InstanceFaultRollback: none other; ``MoveAborted`` where no host
        can take the server
    """
    try:
        yield
    except nova_exc.BuildAbortException as err:
        raise MoveAborted(inner_exception=err) from err
    except nova_exc.NovaException as err:
        raise nova_exc.InstanceFaultRollback(inner_exception=err) from err
    except Exception as err:
        LOG.exception(
            'Host %(host)s: the claim for a move of server %(uuid)s has '
            'failed unexpectedly. The server stays as it is. Please report '
            'this bug',
            {'host': host, 'uuid': instance.uuid},
        )
        text = f'Host {host} has failed unexpectedly: {plugins.describe(err)}'
        reason = _hide_others(text, host, instance)
        raise nova_exc.InstanceFaultRollback(
            inner_exception=nova_exc.ComputeResourcesUnavailable(reason=reason)
        ) from err


@contextlib.contextmanager
def translated(instance: Any, host: str) -> Iterator[None]:
    """Turn errors of this package into Nova's, and log them in full.

    Nova tries another host after a refused claim, and where placement cannot
    move an allocation to the domain of the server's CPUs. It also tries
    another host after a failure of this host, and counts a failed build
    here. A malformed flavor fails on every host, so none is tried.

    Of an error's message Nova keeps 255 characters in events and faults, and
    several of its log lines are at DEBUG. Users of the server read a fault,
    and Nova shows them no names of hosts: these are in the log only, as is
    all that belongs to others, see :data:`_OTHERS`.

    :param instance: the ``nova.objects.Instance`` that is the subject
    :param host: the name of this host
    """
    try:
        with exception.naming_host(host):
            yield
    except exception.ExtResourcesError as err:
        reason = _name_server(str(err), instance)
        LOG.warning('%s', reason, instance=instance)
        shown = _hide_others(reason, host, instance)
        raise _translate(err, shown, instance) from err


def find_name(instance: Any) -> str:
    """Return the server's name, or its uuid where that is shorter.

    A long name would take the place of the reason in what Nova keeps.
    """
    name: str = instance.display_name or instance.uuid
    return name if len(name) <= len(instance.uuid) else instance.uuid


def _name_server(text: str, instance: Any) -> str:
    """Write the server's name where only its uuid was known.

    The names of files and control groups contain the uuid too, and keep it.
    """
    subject = f'server {instance.uuid}'
    return text.replace(subject, f'server {find_name(instance)}')


def _hide_others(text: str, host: str, instance: Any) -> str:
    """Return what the owner of a server may read of an error."""
    for pattern, instead in _OTHERS:
        text = re.sub(pattern, instead, text)
    theirs = rf'(?<!req-)(?!{instance.uuid})\b{_UUID}'
    text = re.sub(theirs, '(uuid)', text)
    name = rf'(?<![\w-]){re.escape(host)}(?![\w-])'
    text = re.sub(rf'\b(H|h)ost {name}', _name_no_host, text)
    return re.sub(name, '(host)', text)


def _name_no_host(found: re.Match[str]) -> str:
    return 'This host' if found[1] == 'H' else 'this host'


def _translate(
    err: exception.ExtResourcesError, reason: str, instance: Any
) -> nova_exc.NovaException:
    if isinstance(err, _REFUSALS):
        return HostRefused(reason=reason)
    if isinstance(err, exception.InvalidExtraSpec):
        return nova_exc.BuildAbortException(
            instance_uuid=instance.uuid, reason=reason
        )
    # Nova ends the sentence.
    reason = reason.removesuffix('.')
    return nova_exc.ComputeResourcesUnavailable(reason=reason)


@contextlib.contextmanager
def rebuild_shown(
    operation: operation_obj.Operation, instance_uuid: str
) -> Iterator[None]:
    """Leave the server in ERROR when a rebuild on its own host fails.

    Nova takes ``ComputeResourcesUnavailable`` for a claim that failed before
    anything was touched, and sets the server back to ACTIVE (ComputeManager
    ``rebuild_instance``). That is true for an evacuation. Here its guest and
    its disk are gone by now.
    """
    try:
        yield
    except nova_exc.ComputeResourcesUnavailable as err:
        if operation is not operation_obj.Operation.REBUILD:
            raise
        raise nova_exc.BuildAbortException(
            instance_uuid=instance_uuid, reason=err.format_message()
        ) from err
