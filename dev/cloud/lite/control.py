# SPDX-License-Identifier: Apache-2.0

"""Placement and all of Nova in one process, on native threads.

``python -m dev.cloud.lite.control --etc FOLDER --identity-fd N
--placement-fd N --compute-fd N --network-fd N HOST ...``

The services are the real ones. What is missing is between them: messages go
through oslo.messaging's in-process ``fake`` driver, and the computes use the
database directly.

Nova must be imported after the threading backend was chosen, and reads the
command line and the environment when it is imported: that is why imports
stand inside functions here.
"""

import argparse
import importlib
import itertools
import json
import os
import pathlib
import signal
import sys
import threading
import time
from typing import Any
import warnings

from dev.cloud import ending
from dev.cloud.lite import config
from dev.cloud.lite import identity
from dev.cloud.lite import sqlite
from dev.cloud import network
from dev.cloud import serving

_STARTED = time.monotonic()


def main() -> None:
    """Start everything in order and stay until a signal comes."""
    arguments = _parse()
    _prepare(arguments)
    _start_stand_ins(arguments)
    _start_placement(arguments.placement_fd)
    _configure_nova(arguments.etc)
    _make_databases()
    # Bound to a name: the services run as long as something holds them.
    others = _start_others()
    computes = [_start_compute(host) for host in arguments.hosts]
    _map_hosts()
    _start_api(arguments.compute_fd)
    _say(f'up, {len(others) + len(computes)} services')
    _stay(computes)


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument('--etc', required=True)
    parser.add_argument('--identity-fd', type=int, required=True)
    parser.add_argument('--placement-fd', type=int, required=True)
    parser.add_argument('--compute-fd', type=int, required=True)
    parser.add_argument('--network-fd', type=int, required=True)
    parser.add_argument('--prepare', action='append', default=[])
    parser.add_argument('hosts', nargs='+')
    return parser.parse_args()


def _prepare(arguments: argparse.Namespace) -> None:
    warnings.simplefilter('ignore')
    del sys.argv[1:]
    os.environ.update(
        # On eventlet, a thread that waits for SQLite's lock would stop the one
        # that has it. nova.cmd.manage would bring eventlet in.
        OS_NOVA_DISABLE_EVENTLET_PATCHING='1',
        OS_NOVA_CONFIG_DIR=arguments.etc,
        OS_PLACEMENT_CONFIG_DIR=arguments.etc,
    )
    from nova import monkey_patch

    # Goes by the environment. Before Nova 33 it has no argument.
    monkey_patch.patch()
    sqlite.install()
    for name in arguments.prepare:
        module, _, function = name.partition(':')
        getattr(importlib.import_module(module), function)()


def _start_stand_ins(arguments: argparse.Namespace) -> None:
    catalog = pathlib.Path(arguments.etc, config.CATALOG).read_text()
    serving.serve(
        identity.make_application(json.loads(catalog)),
        arguments.identity_fd,
        threads=2,
    )
    serving.serve(network.application, arguments.network_fd, threads=2)


def _start_placement(fd: int) -> None:
    from placement import wsgi

    serving.serve(wsgi.init_application(), fd)
    _say('placement')


def _configure_nova(etc: str) -> None:
    from nova.api.openstack import wsgi_app
    from nova import objects
    import os_vif

    wsgi_app.init_global_data(
        [f'{etc}/nova.conf'], 'osapi_compute', 'nova-api'
    )
    objects.register_all()
    os_vif.initialize()
    _say('nova imported')


def _make_databases() -> None:
    from nova.cmd import manage
    import nova.conf

    main_database = nova.conf.CONF.database.connection
    steps = (
        manage.ApiDbCommands().sync(),
        manage.CellV2Commands().map_cell0(
            main_database.replace('/nova.db', '/nova_cell0.db')
        ),
        manage.DbCommands().sync(),
        manage.CellV2Commands().create_cell(name='cell1'),
    )
    if any(steps):
        raise SystemExit(
            f'nova-manage could not make the databases: {steps}; its '
            f'messages are above.'
        )
    _say('databases')


def _start_others() -> list[Any]:
    from nova.conductor import rpcapi as conductor_rpcapi
    from nova.scheduler import rpcapi as scheduler_rpcapi
    from nova import service

    services = [
        service.Service.create(
            binary='nova-conductor', topic=conductor_rpcapi.RPC_TOPIC
        ),
        service.Service.create(
            binary='nova-scheduler', topic=scheduler_rpcapi.RPC_TOPIC
        ),
    ]
    for one in services:
        one.start()
    return services


def _start_compute(host: str, guests: Any = None) -> Any:
    """Start a host's nova-compute.

    :param guests: the fake driver's, of its former process
    """
    from nova.compute import rpcapi as compute_rpcapi
    from nova import service

    compute = service.Service.create(
        host=host,
        binary='nova-compute',
        topic=compute_rpcapi.RPC_TOPIC,
        topic_alt=compute_rpcapi.RPC_TOPIC_ALT,
    )
    if guests is not None:
        compute.manager.driver.instances = guests
    compute.start()
    _say(f'compute {host}')
    return compute


def _stay(computes: list[Any]) -> None:
    """Start the computes again at each SIGHUP."""
    keep_threads()
    asked = threading.Event()
    signal.signal(signal.SIGHUP, lambda *_: asked.set())
    for count in itertools.count(1):
        asked.wait()
        asked.clear()
        computes[:] = [_restart(one) for one in computes]
        _say(f'computes started again, {count}')


def keep_threads() -> None:
    """Let no service that stops end the threads of the others."""
    try:
        from nova import thread_pool_factory
    except ImportError:
        # Before Nova 34, a service ends nothing that others share.
        return
    thread_pool_factory.shutdown_all_executors = lambda: None


def _restart(compute: Any) -> Any:
    guests = compute.manager.driver.instances
    compute.stop()
    return _start_compute(compute.host, guests)


def _map_hosts() -> None:
    """Map the hosts into the cell.

    A server that is asked for earlier goes to ERROR and keeps its
    allocation.
    """
    from nova import context
    from nova.objects import host_mapping

    host_mapping.discover_hosts(context.get_admin_context())


def _start_api(fd: int) -> None:
    from nova.api.openstack import wsgi_app

    serving.serve(
        wsgi_app.init_application('osapi_compute', 'nova-api'), fd, threads=8
    )


def _say(what: str) -> None:
    print(f'[{time.monotonic() - _STARTED:.2f}] {what}', flush=True)


if __name__ == '__main__':
    ending.run(main)
