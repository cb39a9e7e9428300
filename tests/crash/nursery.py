# SPDX-License-Identifier: Apache-2.0

"""Starts nova-computes fast: imports everything once, and forks.

``python -m tests.crash.nursery ETC BUS``: reads ``HOST FOLDER`` lines, writes
the process id of each. When its standard input ends, it kills its children
and ends.
"""

import os
import signal
import sys
import traceback
import warnings


def main() -> None:
    """Fork one nova-compute for each line."""
    warnings.simplefilter('ignore')
    etc, bus_path = sys.argv[1:]
    del sys.argv[1:]
    os.environ.update(
        OS_NOVA_DISABLE_EVENTLET_PATCHING='1', OS_NOVA_CONFIG_DIR=etc
    )
    from nova import monkey_patch

    monkey_patch.patch(backend='threading')
    # Before the fork: it takes seconds.
    import nova.compute.manager  # noqa: F401
    from nova.virt.ext_resources import FakeDriver  # noqa: F401

    import nova_ext_resources.drivers.rmd.enforcer
    import nova_ext_resources.drivers.rmd.inventory  # noqa: F401
    from tests.crash import compute

    # The dead need no farewell.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    children = []
    print('ready', flush=True)
    for line in iter(sys.stdin.readline, ''):
        host, folder = line.split()
        pid = os.fork()
        if not pid:
            _become(compute.main, host, etc, folder, bus_path)
        children.append(pid)
        print(pid, flush=True)
    for pid in children:
        if _is_ours(pid):
            os.kill(pid, signal.SIGKILL)


def _is_ours(pid: int) -> bool:
    """Return whether a process is still a child of this one."""
    try:
        with open(f'/proc/{pid}/stat') as file:
            return int(file.read().rpartition(')')[2].split()[1]) == (
                os.getpid()
            )
    except FileNotFoundError:
        return False


def _become(main: object, *arguments: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    folder = arguments[2]
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    output = os.open(
        f'{folder}/compute.out', os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600
    )
    os.dup2(output, 1)
    os.dup2(output, 2)
    try:
        assert callable(main)
        main(*arguments)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    os._exit(1)


if __name__ == '__main__':
    main()
