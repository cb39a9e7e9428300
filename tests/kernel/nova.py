# SPDX-License-Identifier: Apache-2.0

"""A host's resctrl in the hands of an unprivileged nova-compute.

    python -m tests.kernel.nova WORD... < commands

The words are Nova's root helper, for example ``sudo nova-rootwrap
/etc/nova/rootwrap.conf``. A command is a line of JSON: the name of a method
of :class:`Compute` and its arguments. So is its answer: ``result`` or
``error``.
"""

import dataclasses
import json
import os
import sys
import tempfile
from typing import Any

from oslo_config import cfg
from oslo_privsep import priv_context

from nova_ext_resources.conf import reader
from nova_ext_resources.host.service import wiring
from nova_ext_resources.objects import host_provider
from tests.unit import builders
from tests.unit.host import with_host

_CONF = """
[ext_resources]
inventory_providers = resctrl
enforcers = resctrl
[ext_resources_placement]
auth_type = none
endpoint_override = http://127.0.0.1:1
"""

_L3 = host_provider.make_rp_uuid(with_host.NODE.uuid, 'L3_0')


class Compute:
    """What nova-compute does with the servers of its host."""

    def __init__(self, folder: str) -> None:
        path = os.path.join(folder, 'ext-resources.conf')
        with open(path, 'w', encoding='utf-8') as stream:
            stream.write(_CONF)
        self._service = wiring.HostService(
            reader.read_conf([path], [], 'host1'),
            host='host1',
            node=with_host.NODE,
            state_path=folder,
            compute=with_host.COMPUTE,
        )
        self._service.start()

    def get_user(self) -> int:
        return os.getuid()

    def list_offers(self) -> dict[str, list[str]]:
        """Return provider -> resource classes."""
        return {
            one.key: sorted(one.inventories)
            for one in self._service.host.found.providers
        }

    def boot(self, server: str, ways: int, cpus: list[int] | None) -> None:
        """Start a server, on CPUs of its own or floating."""
        asked = builders.make_request(
            {_L3: {with_host.WAYS: ways}},
            cpus=cpus,
            asked={with_host.WAYS: ways},
        )
        self._service.claim(dataclasses.replace(asked, consumer_uuid=server))
        self._service.host.apply(server, must_hold=True)

    def delete(self, server: str) -> None:
        self._service.host.release(server)

    def heal(self) -> list[str]:
        """Return what is still wrong."""
        self._service.host.refresh()
        self._service.host.heal()
        return [str(one) for one in self._service.host.problems]

    def stop(self) -> None:
        self._service.stop()


def set_up_helper(words: list[str]) -> None:
    """Do what nova-compute does when it starts."""
    cfg.CONF(['--config-file', '/etc/nova/nova.conf'], project='nova')
    priv_context.init(root_helper=words)


def answer(compute: Compute, line: str) -> dict[str, Any]:
    name, *arguments = json.loads(line)
    try:
        return {'result': getattr(compute, name)(*arguments)}
    except Exception as err:
        return {'error': f'{type(err).__name__}: {err}'}


def main() -> None:
    set_up_helper(sys.argv[1:])
    with tempfile.TemporaryDirectory() as folder:
        compute = Compute(folder)
        print(json.dumps({'result': 'started'}), flush=True)
        for line in sys.stdin:
            print(json.dumps(answer(compute, line)), flush=True)
        compute.stop()


if __name__ == '__main__':
    main()
