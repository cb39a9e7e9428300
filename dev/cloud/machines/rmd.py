# SPDX-License-Identifier: Apache-2.0

"""A machine with RMD: one simulated daemon, in a process of its own."""

import re
from typing import Any

import requests

from dev.cloud import child
from dev.cloud import errors
from dev.cloud.machines import base
from dev.cloud import settings as cloud_settings
from dev.cloud import told
from dev.cloud import waiting

_URL = re.compile(r'https?://127\.0\.0\.1:(\d+)')
_TIMEOUT_SECONDS = 5.0

#: How RMD deals out the ways.
_POOLS = 'os=1,guarantee=6,besteffort=3,shared=1'


class Machine(base.Machine):
    """RMD of one host; comes back on the same port as before."""

    backend = 'rmd'
    manager = 'RMD'
    loss = 'RMD is killed'

    _port = 0

    @property
    def url(self) -> str:
        """Where it answers; known after :meth:`start`."""
        return f'http://127.0.0.1:{self._port}'

    @property
    def name(self) -> str:
        """The name of its process and of its log."""
        return f'rmd-{self.host}'

    def options(self) -> cloud_settings.Options:
        """Return what the configuration of its host says of it."""
        return {
            'ext_resources_rmd': {
                'url': self.url,
                'num_closids': str(self._hardware.closids),
                'timeout': '3',
            }
        }

    def describe(self) -> str:
        """Return a command that shows what is applied."""
        return f'curl {self.url}/v1/workloads'

    def list_in_force(self) -> dict[str, base.InForce]:
        """Return server -> the workload that RMD has for it."""
        return {
            one.get('uuid') or one['id']: base.InForce(
                name=one['cos_name'],
                ways=one['rdt']['cache'].get('min', 0),
                schemata=self.schemata(one['cos_name']),
            )
            for one in self.workloads()
        }

    def get(self, path: str) -> Any:
        """GET a path, as anybody may.

        :raises CloudError: it does not answer
        """
        return self._call('GET', path)

    def workloads(self) -> list[dict[str, Any]]:
        """Return the workloads that RMD has."""
        found: list[dict[str, Any]] = self.get('/v1/workloads')
        return found

    def groups(self) -> list[dict[str, Any]]:
        """Return the control groups of the simulated kernel."""
        found: list[dict[str, Any]] = self.get('/-/groups')
        return found

    def schemata(self, name: str) -> str:
        """Return the ways that the kernel lets a control group fill."""
        group = next(one for one in self.groups() if one['name'] == name)
        masks = group['schemata']['L3']
        return 'L3:' + ';'.join(f'{one}={masks[one]}' for one in sorted(masks))

    def free_ways(self) -> dict[str, str]:
        """Return the guaranteed ways that nobody uses: cache id -> ``1-6``.

        Caches without any are left out.
        """
        caches = self.get('/v1/cache/l3')['Caches']
        free = {
            cache_id: cache['available_ways_pool']['guaranteed']
            for cache_id, cache in caches.items()
        }
        return {cache_id: ways for cache_id, ways in free.items() if ways}

    def count_discoveries(self) -> int:
        """Explain how often somebody has looked at the caches so far."""
        so_far: list[list[str]] = self.get('/-/requests')
        return so_far.count(['GET', '/v1/cache/l3'])

    def wait_for_look(self) -> None:
        """Wait until the host has looked at its caches again.

        :raises NotAsTold: it does not look
        """
        seen = self.count_discoveries()
        waiting.until(
            lambda: self.count_discoveries() > seen,
            f'{self.host} looks at its caches now and then',
        )

    def take_free_ways(self, name: str) -> None:
        """Let other software take the guaranteed ways, behind RMD's back."""
        body = {'name': name, 'ways': self.free_ways()}
        self._call('POST', '/-/groups', body)

    def give_ways_back(self, name: str) -> None:
        """Let other software give its ways back."""
        self._call('DELETE', f'/-/groups/{name}')

    def _call(self, method: str, path: str, body: Any = None) -> Any:
        try:
            answer = requests.request(
                method,
                self.url + path,
                json=body,
                timeout=_TIMEOUT_SECONDS,
            )
        except requests.RequestException as error:
            raise errors.CloudError(
                f'The simulated RMD of {self.host} does not answer: {error}'
            ) from error
        told.expect(
            answer.ok,
            f'{method} {path} at the RMD of {self.host} succeeds',
            f'{answer.status_code} {answer.text.strip()}',
        )
        return answer.json() if answer.content else None

    def _make_child(self) -> child.Child:
        return child.Child(
            self.name,
            'nova_ext_resources.testing.rmd_simulator',
            [
                f'--port={self._port}',
                # RMD's database and the kernel's groups outlive a crash.
                f'--database={self._folder.lib / self.name}.json',
                *_list_arguments(self._hardware),
            ],
            folder=self._folder,
        )

    def _is_ready(self) -> bool:
        if not self._port:
            found = _URL.search('\n'.join(self._child.tail()))
            if found is None:
                return False
            self._port = int(found[1])
        try:
            return requests.get(
                f'{self.url}/v1/workloads', timeout=_TIMEOUT_SECONDS
            ).ok
        except requests.RequestException:
            return False


def _list_arguments(hardware: base.Hardware) -> list[str]:
    return [
        f'--sockets={hardware.sockets}',
        f'--cpus={hardware.cpus}',
        f'--ways={hardware.ways}',
        f'--clos={hardware.closids}',
        f'--pools={_POOLS}',
    ]
