# SPDX-License-Identifier: Apache-2.0

"""Monitoring: one sweep over a full host, and what the agent takes.

CPU time, of 200 servers on a machine with 16 last-level caches: a tree of
plain files, in memory where there is such a file system. What the kernel does
to read a counter comes on top; there is no such machine here. The peer reads
the same files and makes numbers of them, and nothing else.
"""

from collections.abc import Collection, Iterator, Mapping
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid

from dev.bench.harness import rows as rows_mod
from dev.bench.harness import timing
from nova_ext_resources.drivers.resctrl.kernel import counters
from nova_ext_resources.drivers.resctrl.kernel import file_system
from nova_ext_resources.monitoring import sample
from nova_ext_resources.monitoring import sweep
from nova_ext_resources.testing import resctrl

SERVERS = 200
DOMAINS = 16

#: Of the servers, those with a class of service; a machine has few.
CONTROLLED = 15

REPETITIONS = 15

#: Sweeps of one minute, in one of which all threads are looked for.
INTERVAL = 10
MINUTE = 60

MAX_SWEEP_MS = 150.0
MAX_CPU_PERCENT = 1.0
MAX_RSS_MB = 80.0

UUIDS = [str(uuid.UUID(int=number + 1)) for number in range(SERVERS)]

#: Imported by everything that an agent of a host runs.
AGENT = (
    'nova_ext_resources.host.service.wiring',
    'nova_ext_resources.drivers.resctrl.inventory',
    'nova_ext_resources.drivers.resctrl.enforcer',
    'nova_ext_resources.monitoring.loading',
)

#: A file system in memory.
_MEMORY = '/dev/shm'


def run() -> list[rows_mod.Row]:
    with make_folder() as root:
        write_tree(root)
        found = json.loads(
            subprocess.run(
                [sys.executable, '-m', __name__, root],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
        )
        return [
            *_run_sweeps(root),
            _run_model(),
            rows_mod.make_row(
                f'agent, CPU with a sweep each {INTERVAL} s',
                found['cpu_percent'],
                MAX_CPU_PERCENT,
                '%',
            ),
            *(
                rows_mod.make_row(
                    f'agent, resident memory after {moment}',
                    found[key],
                    MAX_RSS_MB,
                    'MB',
                )
                for moment, key in (
                    ('a minute', 'rss_mb'),
                    ('imports', 'imported_rss_mb'),
                )
            ),
        ]


def _run_sweeps(root: str) -> list[rows_mod.Row]:
    sweeper = make_sweeper(root)
    swept = sweeper.sweep()
    assert len(swept.servers) == SERVERS, swept.problem
    paths = list(list_counters(root))
    pairs = timing.compare(
        lambda: (sweeper.sweep, functools.partial(_read_plainly, paths)),
        REPETITIONS,
    )
    what = f'sweep of {SERVERS} servers, {DOMAINS} caches'
    compared = rows_mod.compare_pairs(
        f'{what} : open, read, close, int()', pairs, None
    )
    return [rows_mod.make_row(what, compared.ours, MAX_SWEEP_MS), compared]


def _read_plainly(paths: list[str]) -> int:
    total = 0
    for path in paths:
        handle = os.open(path, os.O_RDONLY)
        total += int(os.read(handle, 64))
        os.close(handle)
    return total


def _run_model() -> rows_mod.Row:
    """Sweep over the model of a kernel: it costs more than a kernel."""
    with resctrl.ResctrlFixture('epyc16') as machine:
        for one in UUIDS:
            machine.file_system.mkdir(f'mon_groups/nova-{one}')
        sweeper = sweep.Sweeper(
            machine.file_system,
            cpu_path=os.devnull,
            list_servers=list_servers,
            list_threads=list_threads,
        )
        assert len(sweeper.sweep().servers) == SERVERS
        spent = [timing.time_once(sweeper.sweep) for _ in range(3)]
    return rows_mod.compare(
        'sweep over the model of a kernel, which has costs of its own',
        statistics.median(spent),
        MAX_SWEEP_MS,
        None,
    )


# The tree


def make_folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(
        prefix='bench-monitoring-',
        dir=_MEMORY if os.path.isdir(_MEMORY) else None,
    )


def list_groups() -> list[str]:
    return [
        f'nova-{one}' if number < CONTROLLED else f'mon_groups/nova-{one}'
        for number, one in enumerate(UUIDS)
    ]


def list_counters(root: str) -> Iterator[str]:
    for group in list_groups():
        for domain in range(DOMAINS):
            for event in counters.EVENTS:
                yield f'{root}/{group}/mon_data/mon_L3_{domain:02}/{event}'


def write_tree(root: str) -> None:
    """Write what a sweep reads, with numbers as long as real ones."""
    texts = {
        'info/L3_MON/mon_features': '\n'.join(counters.EVENTS),
        'info/L3_MON/num_rmids': '256\n',
        'info/L3_MON/max_threshold_occupancy': '65536\n',
        'info/L3/num_closids': '16\n',
    }
    for group in ('', *list_groups()):
        texts[os.path.join(group, 'tasks')] = '1234\n'
        for domain in range(DOMAINS):
            folder = os.path.join(group, f'mon_data/mon_L3_{domain:02}')
            texts[f'{folder}/llc_occupancy'] = '16711680\n'
            texts[f'{folder}/mbm_total_bytes'] = '123456789012345\n'
            texts[f'{folder}/mbm_local_bytes'] = '12345678901234\n'
    for path, text in texts.items():
        whole = os.path.join(root, path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        with open(whole, 'w', encoding='ascii') as file:
            file.write(text)


def list_servers() -> Mapping[str, sample.MonitoredServer]:
    return {one: sample.MonitoredServer(holds=True) for one in UUIDS}


def list_threads(uuids: Collection[str]) -> Mapping[str, Collection[int]]:
    return dict.fromkeys(uuids, (1234,))


def make_sweeper(root: str) -> sweep.Sweeper:
    return sweep.Sweeper(
        file_system.RealFileSystem(root),
        cpu_path='/sys/devices/system/cpu',
        list_servers=list_servers,
        list_threads=list_threads,
    )


# The process of an agent


def main(root: str) -> None:
    """Be an agent for a minute that has nothing else to do."""
    for name in AGENT:
        __import__(name)
    imported = read_rss()
    sweeper = make_sweeper(root)
    start = time.process_time()
    swept = [sweeper.sweep() for _ in range(MINUTE // INTERVAL)]
    spent = time.process_time() - start
    assert all(len(one.servers) == SERVERS for one in swept)
    json.dump(
        {
            'imported_rss_mb': imported,
            'rss_mb': read_rss(),
            'cpu_percent': 100 * spent / MINUTE,
        },
        sys.stdout,
    )


def read_rss() -> float:
    with open('/proc/self/statm', encoding='ascii') as file:
        pages = int(file.read().split()[1])
    return pages * os.sysconf('SC_PAGE_SIZE') / (1 << 20)


if __name__ == '__main__':
    main(sys.argv[1])
