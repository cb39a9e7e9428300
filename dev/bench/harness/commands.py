# SPDX-License-Identifier: Apache-2.0

"""Whole commands of the client, with a real placement and many hosts.

What a user waits for: a process that imports the client, reads the hosts and
what is reserved, plans, writes and prints. Each host has four providers.
"""

from collections.abc import Iterator, Sequence
from concurrent import futures
import itertools
import json
import pathlib
import resource
import statistics
import subprocess
import sys
import time
import uuid

from dev.bench.harness import peers
from dev.bench.harness import placements
from dev.bench.harness import publishing
from dev.bench.harness import rows as rows_mod
from nova_ext_resources.objects import class_inventory
from nova_ext_resources.placement.api import bulk_inventories
from nova_ext_resources.placement.api import placement_client

#: Numbers of hosts.
HOSTS = (100, 1_000)

ROUNDS = 3

#: Hosts that are made at the same time.
_THREADS = 8

#: For the largest number of hosts.
MAX_MS = 10_000.0

_WHEN = ('--start', '2031-01-01T00:00Z', '--duration', '1d')

_ASKED = ('--resource', 'VCPU=4', '--resource', f'{publishing.WAYS}=2')

#: What is run -> its words. ``list`` needs no hosts, and shows what all of
#: them take for the client itself.
_COMMANDS = {
    'list': ('list',),
    'create': ('create', '{}', *_ASKED, *_WHEN),
    'create on ten hosts': (
        'create',
        '{}',
        *_ASKED,
        *('--servers', '10', '--affinity', 'different-hosts'),
        *_WHEN,
    ),
    'capacity': ('capacity', '--from', *_WHEN[1:]),
}


def measure(
    folder: str,
    hosts: Sequence[int] = HOSTS,
    rounds: int = ROUNDS,
    *,
    is_sqlite: bool = False,
) -> Iterator[rows_mod.Row]:
    """Fill a placement, and run commands.

    :param folder: of the database of reservations
    :param hosts: how many, in growing order
    """
    with placements.started(is_sqlite=is_sqlite) as placement:
        config = pathlib.Path(folder) / 'nova.conf'
        config.write_text(
            f'[DEFAULT]\nstate_path = {folder}\n'
            '[placement]\nauth_type = admin_token\ntoken = admin\n'
            f'endpoint = {placement.url}\n'
        )
        client = placement_client.Client(
            placement.connect(placements.Counter())
        )
        for name in (publishing.WAYS, publishing.CLOS):
            client.ensure_resource_class(name)
        for before, number in itertools.pairwise((0, *hosts)):
            _fill(client, range(before, number))
            for what, words in _COMMANDS.items():
                spent = [
                    _time([one.format(uuid.uuid4()) for one in words], config)
                    for _round in range(rounds)
                ]
                is_largest = number == HOSTS[-1] and what != 'list'
                wall, cpu = map(statistics.median, zip(*spent, strict=True))
                row = f'{number} hosts: the command {what}'
                limit = MAX_MS if is_largest else None
                yield rows_mod.make_row(row, wall, limit)
                yield rows_mod.make_row(f'{row}, CPU time', cpu, None)


def _fill(client: placement_client.Client, numbers: range) -> None:
    """Make hosts, whose inventories are written many at a time."""
    with futures.ThreadPoolExecutor(_THREADS) as pool:
        made = [
            one
            for host in pool.map(
                lambda number: _make_host(client, number), numbers
            )
            for one in host
        ]
    for first in range(0, len(made), bulk_inventories.MOST):
        client.reshape(
            {
                rp_uuid: (0, own)
                for rp_uuid, own in made[first : first + bulk_inventories.MOST]
            }
        )


def _make_host(
    client: placement_client.Client, number: int
) -> list[tuple[str, dict[str, class_inventory.Inventory]]]:
    """Make the providers of a host; return what each is to have."""
    name, made = f'host{number:05}', []
    root: str | None = None
    for suffix, amounts in (
        ('', {'VCPU': 64, 'MEMORY_MB': 262144}),
        ('_RDT', {publishing.CLOS: 15}),
        ('_L3_0', {publishing.WAYS: 11}),
        ('_L3_1', {publishing.WAYS: 11}),
    ):
        one = client.ensure_provider(
            str(uuid.uuid4()), f'{name}{suffix}', root
        )
        root = root or one.rp_uuid
        own = {
            k: class_inventory.Inventory(total=v) for k, v in amounts.items()
        }
        made.append((one.rp_uuid, own))
    return made


def _time(words: Sequence[str], config: pathlib.Path) -> tuple[float, float]:
    """Return how long a command took, and its CPU time, in milliseconds.

    Not the CPU time of placement, which answers it.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    done = subprocess.run(
        [
            *(sys.executable, '-W', 'ignore', '-m', 'openstackclient.shell'),
            *('extended', 'reservation', *words, '-f', 'json'),
            *('--config-file', str(config)),
        ],
        capture_output=True,
        text=True,
        cwd=peers.ROOT,
        check=False,
    )
    spent = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert not done.returncode, done.stderr
    json.loads(done.stdout)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return spent * 1000, cpu * 1000
