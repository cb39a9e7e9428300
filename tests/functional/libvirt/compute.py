# SPDX-License-Identifier: Apache-2.0

"""A nova-compute in a process of its own, and its way to the other services.

``python -m tests.functional.libvirt.compute CONF BUS``: runs until killed.

What :mod:`nova.cmd.compute` does, without the launcher.
"""

import os
import pathlib
import sys
import threading
from typing import Any
import warnings

from tests.crash import bus
from tests.crash import messaging

_SOCKET = 'bus'

#: What it prints when it has started.
STARTED = 'nova-compute has started'


def find_bus(etc: pathlib.Path) -> str:
    """Return where the message bus is.

    :param etc: folder of the cloud's configuration
    """
    return str(etc / _SOCKET)


class _Elsewhere:
    """Stands for a nova-compute that runs in a process of its own."""

    def start(self) -> None:
        """Leave it to that process."""


def prepare() -> None:
    """Make the process of the other services carry the message bus."""
    from nova import service

    broker = bus.Broker()
    broker.serve(find_bus(pathlib.Path(os.environ['OS_NOVA_CONFIG_DIR'])))
    messaging.install(broker)
    create = service.Service.create

    def create_other(**arguments: Any) -> Any:
        if arguments['binary'] == 'nova-compute':
            return _Elsewhere()
        return create(**arguments)

    service.Service.create = create_other


def main() -> None:
    """Run one."""
    warnings.simplefilter('ignore')
    conf, bus_path = sys.argv[1:]
    del sys.argv[1:]
    os.environ['OS_NOVA_DISABLE_EVENTLET_PATCHING'] = '1'
    from nova import monkey_patch

    # Goes by the environment. Before Nova 33 it has no argument.
    monkey_patch.patch()
    messaging.install(bus.Remote(bus_path))
    _configure(conf)
    _serve()


def _configure(conf: str) -> None:
    from nova.conductor import rpcapi as conductor_rpcapi
    from nova import config
    import nova.db.main.api
    from nova import objects
    from nova.objects import base as objects_base
    from nova import privsep
    import os_vif
    from oslo_log import log as logging

    config.parse_args(
        ['nova-compute', '--config-file', conf],
        default_config_files=[conf],
        configure_db=False,
    )
    logging.setup(nova.conf.CONF, 'nova')
    privsep.sys_admin_pctxt.set_client_mode(False)
    objects.register_all()
    os_vif.initialize()
    nova.db.main.api.DISABLE_DB_ACCESS = True
    objects_base.NovaObject.indirection_api = conductor_rpcapi.ConductorAPI()
    objects.Service.enable_min_version_cache()


def _serve() -> None:
    import libvirt
    from nova.compute import rpcapi as compute_rpcapi
    from nova import service

    made = service.Service.create(
        binary='nova-compute',
        topic=compute_rpcapi.RPC_TOPIC,
        topic_alt=compute_rpcapi.RPC_TOPIC_ALT,
    )
    made.start()
    # libvirt cannot know that two hosts share a folder of one machine.
    made.manager.driver._live_migration_flags |= libvirt.VIR_MIGRATE_UNSAFE
    print(STARTED, flush=True)
    threading.Event().wait()


if __name__ == '__main__':
    main()
