# SPDX-License-Identifier: Apache-2.0

"""One nova-compute in a process of its own, that can be killed at any step.

What :mod:`nova.cmd.compute` does, without the launcher: Nova's own service,
manager, resource tracker and report client, our driver, and no access to the
database but by the conductor.
"""

from collections.abc import Callable
import functools
import pathlib
import threading
import time
from typing import Any
from unittest import mock

from keystoneauth1 import session
from nova.compute import rpcapi as compute_rpcapi
from nova.conductor import rpcapi as conductor_rpcapi
import nova.conf
from nova import config
from nova import context as nova_context
import nova.db.main.api
from nova import objects
from nova.objects import base as objects_base
from nova import service
import os_vif
from oslo_log import log as logging
from oslo_privsep import priv_context

from nova_ext_resources.drivers.rmd.api import transport
from nova_ext_resources.host.ledger import ledger
from nova_ext_resources.host.reconcile import missing_allocations
from nova_ext_resources.host.reconcile import stale_allocations
from nova_ext_resources.testing import fake_clock
from tests.crash import bus
from tests.crash import guests
from tests.crash import messaging
from tests.crash import steps
from tests.functional import rounds

CONF = nova.conf.CONF

#: The topic of what the harness asks of a compute.
TOPIC = 'crash'

_CHANGES = ('replace', 'set_state', 'delete', 'add_published')


def main(host: str, etc: str, folder: str, bus_path: str) -> None:
    """Run until killed.

    :param etc: has ``compute.conf``
    :param folder: state of this host
    """
    state = pathlib.Path(folder)
    steps.record(state)
    remote = bus.Remote(bus_path)
    messaging.install(remote)
    guests.install(state / 'guests')
    _watch()
    rounds.OneAtATime().setUp()
    _configure(host, etc, folder)
    server = service.Service.create(
        host=host,
        binary='nova-compute',
        topic=compute_rpcapi.RPC_TOPIC,
        topic_alt=compute_rpcapi.RPC_TOPIC_ALT,
    )
    server.start()
    _obey(host, remote, server.manager)


def _configure(host: str, etc: str, folder: str) -> None:
    config.parse_args(
        ['nova-compute', '--config-file', f'{etc}/compute.conf'],
        default_config_files=[f'{etc}/compute.conf'],
        configure_db=False,
    )
    CONF.set_override('host', host)
    CONF.set_override('state_path', folder)
    CONF.set_override('log_file', f'{folder}/compute.log')
    CONF.set_override('lock_path', f'{folder}/locks', 'oslo_concurrency')
    logging.setup(CONF, 'nova')
    priv_context.init(root_helper=['sudo'])
    objects.register_all()
    os_vif.initialize()
    nova.db.main.api.DISABLE_DB_ACCESS = True
    objects_base.NovaObject.indirection_api = conductor_rpcapi.ConductorAPI()
    objects.Service.enable_min_version_cache()


# -- what is a step ------------------------------------------------------


def _watch() -> None:
    for name in _CHANGES:
        _wrap(ledger.Ledger, name, lambda *_args, name=name: f'ledger {name}')
    _wrap(session.Session, 'request', _name_placement)
    _wrap(transport.Transport, 'send', _name_rmd)


def _wrap(kind: Any, name: str, describe: Callable[..., str]) -> None:
    original = getattr(kind, name)

    def act(self: Any, *args: Any, **kwargs: Any) -> Any:
        with steps.around(describe(*args)):
            return original(self, *args, **kwargs)

    setattr(kind, name, act)


def _name_placement(url: str, method: str, *_args: Any) -> str:
    if method == 'GET':
        return ''
    path = url.split('?')[0].partition('//')[2].partition('/')[2] or url
    return f'placement {method} {path.lstrip("/")}'


def _name_rmd(method: str, path: str, *_args: Any) -> str:
    if method == 'GET':
        return ''
    return f'rmd {method} {"/".join(path.split("/")[:3])}'


# -- what the harness asks -----------------------------------------------


def _obey(host: str, remote: bus.Remote, manager: Any) -> None:
    """Answer the harness until killed."""
    while True:
        taken = remote.poll([(TOPIC, host)])
        if taken is not None:
            number, command = taken
            try:
                answer = _COMMANDS[command](manager)
            except Exception as err:
                answer = err
            remote.reply(number, answer)


def _wait_until_compared(manager: Any) -> None:
    ext = manager.driver._ext
    while not ext.host._repair._is_compared:
        time.sleep(0.02)


def _compare(manager: Any) -> None:
    """Do what the threads and Nova's periodic do as time goes by."""
    ext = manager.driver._ext
    loop = ext.periodic
    _wait(loop._asking)
    loop._ask(is_first=False)
    _wait(loop._asking)
    loop.run_round()
    context = nova_context.get_admin_context()
    manager.update_available_resource(context)
    manager._cleanup_running_deleted_instances(context)
    ext.publisher.run_round()
    ext.missing_allocations.run_round()
    ext.stale_allocations.run_round()
    # No difference is in order for so long.
    for made, seconds in (
        (ext.missing_allocations, 2 * missing_allocations.LASTING),
        (ext.stale_allocations, 2 * stale_allocations.PATIENCE),
    ):
        later = time.monotonic() + seconds
        with mock.patch.object(
            made._debounce,
            '_clock',
            fake_clock.FakeClock(functools.partial(float, later)),
        ):
            made.run_round()
    loop.run_round()


def _wait(thread: threading.Thread | None) -> None:
    if thread is not None:
        thread.join(20)


def _report(manager: Any) -> dict[str, Any]:
    """Return what the host has to say, as values."""
    ext = manager.driver._ext
    loop = ext.periodic
    return {
        'entries': dict(ext.host.entries),
        'problems': [
            (one.alarm, one.subject, one.text)
            for one in (
                *ext.host.problems,
                *loop._restore.problems,
                *loop._absent.problems,
                *ext.missing_allocations.problems,
                *ext.stale_allocations.problems,
            )
        ],
        'providers': dict(ext.host.view.keys),
        'classes': set(ext.host.view.resource_classes),
        'used': {
            place: tracked.state.used
            for place, tracked in ext.host.view.tracked.items()
            if tracked.state.used
        },
        'withheld': {
            (uuid, one.rp_uuid, one.resource_class): one.amount
            for uuid, missing in ext.host.state.unallocated.items()
            for one in missing
        },
        'ledger': ext._ledger_path,
        'guests': {
            uuid: guest.state
            for uuid, guest in manager.driver.instances.items()
        },
        'published': ext.publisher.status.failure,
    }


_COMMANDS: dict[str, Callable[[Any], Any]] = {
    'wait': _wait_until_compared,
    'compare': _compare,
    'report': _report,
}
