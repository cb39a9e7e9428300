# SPDX-License-Identifier: Apache-2.0

"""Two hosts whose nova-computes are killed, and all that outlives them.

This process has Nova's API, conductor and scheduler, placement, the network
service, the message bus and an RMD for each host. The nova-computes and
glance are processes of their own.
"""

import argparse
from collections.abc import Iterable
import configparser
import contextlib
import functools
import os
import pathlib
import subprocess
import sys
import threading
import time
from typing import Any

import requests

from dev.cloud import child
from dev.cloud import endpoints
from dev.cloud import folder as folders
from dev.cloud.lite import config
from dev.cloud.lite import control
from dev.cloud import network
from dev.cloud import serving
from dev.cloud import settings as cloud_settings
from nova_ext_resources.testing import rmd_simulator
from tests.crash import bus
from tests.crash import patience
from tests.crash import process

HOSTS = ('host1', 'host2')

#: Without messages for so long, nothing is under way.
QUIET = 0.6

#: How often no thread must want a processor, and seconds between.
_SAMPLES, _SAMPLE = 6, 0.05

#: How often a nova-compute is started in a row, at most.
_STARTS = 5

_ROOT = pathlib.Path(__file__).resolve().parents[2]

_NOVA: cloud_settings.Options = {
    'DEFAULT': {
        'compute_driver': 'ext_resources.FakeDriver',
        'allow_resize_to_same_host': 'true',
        'shelved_offload_time': '0',
        'update_resources_interval': '3600',
        'rpc_response_timeout': '15',
        'long_rpc_timeout': '15',
        'sync_power_state_interval': '-1',
    },
    'filter_scheduler': {
        'available_filters': (
            'nova.scheduler.filters.all_filters',
            'nova_ext_resources.scheduler.filters.all_filters',
        ),
        'enabled_filters': (
            'ComputeFilter,NUMATopologyFilter,ExtendedResourcesFilter'
        ),
        'weight_classes': (
            'nova.scheduler.weights.all_weighers,'
            'nova_ext_resources.scheduler.weighers.all_weighers'
        ),
    },
    'ext_resources': {
        'inventory_providers': 'rmd',
        'enforcers': 'rmd',
        'refresh_interval': '3600',
    },
    'ext_resources_placement': {'auth_section': 'placement'},
}


class Switch:
    """Takes a WSGI application away and brings it back."""

    def __init__(self, application: Any) -> None:
        self._application = application
        self.is_away = False

    def __call__(self, environ: Any, start_response: Any) -> Iterable[bytes]:
        if self.is_away:
            start_response('503 Service Unavailable', [('Retry-After', '1')])
            return [b'']
        answer: Iterable[bytes] = self._application(environ, start_response)
        return answer


class Site(contextlib.ExitStack):
    """A context manager; the process can have one only."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = folders.Folder.create()
        self.broker = bus.Broker()
        self.computes: dict[str, process.Compute] = {}
        self.has_disks = False
        self._lock = threading.Lock()

    def __enter__(self) -> 'Site':
        try:
            self._start()
        except BaseException:
            self.close()
            raise
        return self

    def _start(self) -> None:
        self.callback(self.folder.remove)
        bound = endpoints.Endpoints.bind()
        self.urls = bound.urls()
        self.rmds = {host: self._start_rmd(host) for host in HOSTS}
        config.write(self.folder, self._make_settings(), self.urls)
        self._write_compute_conf()
        image = self._start_image(bound)
        self._start_nursery()
        self._start_control(bound)
        image.wait_until(
            lambda: _answers(f'{self.urls.image}/versions'),
            seconds=patience.PATIENCE,
        )
        for host in HOSTS:
            self.computes[host] = process.Compute(self, host)
            self._mount_disk(host)
            self.computes[host].start()
        for one in self.computes.values():
            one.wait()
        control._map_hosts()
        control._start_api(bound.compute.detach())
        self.session = requests.Session()
        self.session.headers.update(
            {
                'X-Auth-Token': config.TOKEN,
                'OpenStack-API-Version': 'compute 2.95',
                'X-OpenStack-Nova-API-Version': '2.95',
            }
        )
        self.settle()

    def _make_settings(self) -> cloud_settings.Settings:
        return cloud_settings.Settings(
            hosts=HOSTS,
            nova=_NOVA,
            per_host={
                host: {
                    'ext_resources_rmd': {
                        'url': rmd.url,
                        'timeout': '5',
                        'num_closids': '8',
                    }
                }
                for host, rmd in self.rmds.items()
            },
        )

    def find_disk(self, host: str) -> pathlib.Path:
        """Return the folder of a host's ledger."""
        return self.folder.lib / host / 'ext_resources'

    def _mount_disk(self, host: str) -> None:
        from tests.crash import outages

        folder = self.find_disk(host)
        folder.mkdir()
        # The folder's removal unmounts it.
        self.has_disks = os.geteuid() == 0
        if self.has_disks:
            outages.mount_disk(str(folder))

    def _write_compute_conf(self) -> None:
        """Write what computes read: as in a real cloud, no database."""
        parsed = configparser.ConfigParser(strict=False, interpolation=None)
        parsed.read(self.folder.etc / 'nova.conf')
        for section in ('database', 'api_database'):
            parsed.remove_section(section)
        with (self.folder.etc / 'compute.conf').open('w') as file:
            parsed.write(file)

    def _start_rmd(self, host: str) -> Any:
        made = rmd_simulator.RmdSimulatorFixture(
            database=str(self.folder.lib / f'rmd-{host}.json')
        )
        made.setUp()
        self.callback(made.cleanUp)
        return made

    def _start_image(self, bound: endpoints.Endpoints) -> child.Child:
        fd = bound.image.fileno()
        made = child.Child(
            'glance',
            'dev.cloud.lite.image',
            [f'--etc={self.folder.etc}', f'--image-fd={fd}'],
            folder=self.folder,
            fds=[fd],
            log=self.folder.glance_log,
        )
        made.start()
        self.callback(made.stop)
        bound.image.close()
        return made

    def _start_nursery(self) -> None:
        self.bus_path = str(self.folder.root / 'bus')
        self.broker.serve(self.bus_path)
        self._nursery = subprocess.Popen(
            [
                *(sys.executable, '-m', 'tests.crash.nursery'),
                *(str(self.folder.etc), self.bus_path),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=_ROOT,
        )
        self.callback(self._stop_nursery)

    def _stop_nursery(self) -> None:
        self._nursery.communicate(timeout=patience.PATIENCE)

    def fork(self, host: str, folder: pathlib.Path) -> int:
        with self._lock:
            assert self._nursery.stdin and self._nursery.stdout
            self._nursery.stdin.write(f'{host} {folder}\n')
            self._nursery.stdin.flush()
            return int(self._nursery.stdout.readline())

    def _start_control(self, bound: endpoints.Endpoints) -> None:
        control._prepare(
            argparse.Namespace(etc=str(self.folder.etc), prepare=[])
        )
        from placement import wsgi

        from tests.crash import database
        from tests.crash import messaging

        messaging.install(self.broker)
        self.database = database.install()
        serving.serve(network.application, bound.network.detach(), threads=2)
        self.placement = Switch(wsgi.init_application())
        serving.serve(self.placement, bound.placement.detach(), threads=8)
        control._configure_nova(str(self.folder.etc))
        control._make_databases()
        self._services = control._start_others()
        assert self._nursery.stdout
        if self._nursery.stdout.readline() != 'ready\n':
            raise patience.Died('the nursery has ended')

    # -- what a case does ----------------------------------------------------

    def call(
        self, method: str, path: str, body: Any = None, seconds: float = 60
    ) -> Any:
        """Ask Nova's API.

        :raises requests.HTTPError: it refuses
        """
        answer = self.session.request(
            method,
            f'{self.urls.compute}/v2.1{path}',
            json=body,
            timeout=seconds,
        )
        if not answer.ok:
            raise requests.HTTPError(
                f'{method} {path}: {answer.status_code} {answer.text}'
            )
        return answer.json() if answer.content else None

    @functools.cached_property
    def image(self) -> str:
        """An image to boot from."""
        url = f'{self.urls.image}/v2/images'
        made = requests.post(
            url,
            json={
                'name': 'guest',
                'disk_format': 'raw',
                'container_format': 'bare',
            },
            headers={'X-Auth-Token': config.TOKEN},
            timeout=60,
        ).json()
        requests.put(
            f'{url}/{made["id"]}/file',
            data=b'nothing',
            headers={
                'X-Auth-Token': config.TOKEN,
                'Content-Type': 'application/octet-stream',
            },
            timeout=60,
        ).raise_for_status()
        return str(made['id'])

    def settle(self, seconds: float = patience.PATIENCE) -> None:
        """Wait until nothing is under way.

        :raises Died: something still is; says which process has it
        """
        try:
            patience.wait_until(self.is_quiet, 'quiet', seconds)
        except patience.Died as err:
            raise patience.Died(f'{err}: {self._describe_unrest()}') from None

    def _list_dead(self) -> list[str]:
        return [o.host for o in self.computes.values() if not o.is_running]

    def _describe_unrest(self) -> str:
        pids = {'harness': os.getpid()} | {
            host: one.pid for host, one in self.computes.items()
        }
        busy = [name for name, pid in pids.items() if _is_any_running([pid])]
        dead = self._list_dead()
        tails = [one._tail() for one in self.computes.values()]
        text = f'{self.broker.describe()}; busy: {busy}, dead: {dead}'
        return '\n'.join([text, *tails])

    def is_quiet(self) -> bool:
        """Return whether nothing is under way: no message, and no thread.

        On a loaded machine a thread that has something to do may wait for a
        processor for seconds.
        """
        pids = [os.getpid(), *(one.pid for one in self.computes.values())]
        if not self.broker.is_idle(QUIET):
            return False
        for _ in range(_SAMPLES):
            if _is_any_running(pids):
                return False
            time.sleep(_SAMPLE)
        return True

    def revive(self) -> None:
        """Start what is dead, and wait until it is up."""
        dead = [one for one in self.computes.values() if not one.is_running]
        for one in dead:
            one.plan(None)
            one.start()
        for one in dead:
            one.wait()

    def converge(self) -> None:
        """Have all that is under way end, and hosts compare themselves.

        A nova-compute whose start fails, as a service was away, may end some
        time later, and is started again.
        """
        for _ in range(_STARTS - 1):
            try:
                return self._converge()
            except patience.Ended as err:
                print(f'   {str(err).splitlines()[0]}', flush=True)
        return self._converge()

    def _converge(self) -> None:
        self.revive()
        self._settle_alive()
        for _ in range(2):
            for one in self.computes.values():
                one.ask('compare')
        self._settle_alive()

    def _settle_alive(self) -> None:
        """Wait likewise; what a dead one has to do is never done.

        :raises Ended: a nova-compute has ended by itself
        """

        def is_over() -> bool:
            return self.is_quiet() or bool(self._list_dead())

        patience.wait_until(is_over, 'quiet or end')
        if dead := self._list_dead():
            raise patience.Ended(f'{", ".join(dead)} has ended')

    def report(self) -> dict[str, dict[str, Any]]:
        """Return what each host has to say."""
        return {host: one.ask('report') for host, one in self.computes.items()}


def _is_any_running(pids: Iterable[int]) -> bool:
    """Return whether a thread of these processes wants a processor."""
    own = threading.get_native_id()
    for pid in pids:
        for task in pathlib.Path(f'/proc/{pid}/task').glob('*/stat'):
            with contextlib.suppress(OSError):
                state = task.read_text().rpartition(')')[2].split()[0]
                if state in 'RD' and task.parent.name != str(own):
                    return True
    return False


def _answers(url: str) -> bool:
    try:
        return requests.get(url, timeout=2).status_code < 400
    except requests.RequestException:
        return False
