# SPDX-License-Identifier: Apache-2.0

"""How long it takes to have every thread of a server in its group.

A process with 128 threads stands for a large QEMU. The model of the kernel has
costs of its own: in process its Python, on a mount those of FUSE, too.
"""

import statistics
import subprocess
import sys
import time
import uuid

from dev.bench.harness import rows as rows_mod
from dev.cloud.machines import resctrl as machine_mod
from nova_ext_resources.conf.drivers import resctrl as conf
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.objects import assignment
from nova_ext_resources.testing import resctrl
from nova_ext_resources.testing.resctrl import fuse

THREADS = 128
ROUNDS = 20

#: Seconds.
LIMIT = 0.05

_SERVER = str(uuid.UUID(int=128))

_GUEST = """
import threading, time
for _ in range({threads} - 1):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
print('up', flush=True)
time.sleep(600)
"""


def run() -> list[rows_mod.Row]:
    """Measure on each kind of model that this machine can have."""
    guest = subprocess.Popen(
        [
            *(sys.executable, '-c', _GUEST.format(threads=THREADS)),
            *('-uuid', _SERVER),
        ],
        stdout=subprocess.PIPE,
    )
    assert guest.stdout
    try:
        guest.stdout.readline()
        return [
            _measure(shape, is_mounted)
            for is_mounted in _list_kinds()
            for shape in ('skylake2', 'epyc16')
        ]
    finally:
        guest.kill()
        guest.wait()
        guest.stdout.close()


def _list_kinds() -> list[bool]:
    try:
        fuse.load()
    except fuse.Unavailable as err:
        print(f'No mounted model: {err}', file=sys.stderr)
        return [False]
    return [False, True]


def _measure(shape: str, is_mounted: bool) -> rows_mod.Row:
    with resctrl.ResctrlFixture(
        shape, fuse=is_mounted, tasks='proc'
    ) as machine:
        enforcer = machine_mod.make_enforcer(
            {conf.GROUP.name: {'cpu_path': machine.cpu_path}},
            'bench',
            files=machine.file_system,
        )
        spent = []
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            enforcer.apply(_ENTRY)
            spent.append(time.perf_counter() - begun)
            enforcer.release(_ENTRY)
    where = 'on a mount' if is_mounted else 'in process'
    return rows_mod.make_row(
        f'{THREADS} threads, {shape}, {where}, median',
        statistics.median(spent) * 1000,
        LIMIT * 1000,
    )


_ENTRY = assignment.Entry(
    consumer_uuid=_SERVER,
    assignments=(
        assignment.Assignment(
            rp_uuid=str(uuid.UUID(int=1)),
            rp_key=classes.make_l3_key(0),
            resource_class=classes.WAYS,
            amount=4,
            units={'mask': 'f'},
        ),
    ),
)
