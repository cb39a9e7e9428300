# SPDX-License-Identifier: Apache-2.0

"""The command line of the model: mounts it."""

import argparse
from collections.abc import Sequence
import json
import os
import signal
import sys
import threading

from nova_ext_resources.testing.resctrl import fuse
from nova_ext_resources.testing.resctrl import interference
from nova_ext_resources.testing.resctrl import kernel as kernel_mod
from nova_ext_resources.testing.resctrl import remote
from nova_ext_resources.testing.resctrl import shape as shape_mod
from nova_ext_resources.testing.resctrl import shapes
from nova_ext_resources.testing.resctrl import sysfs
from nova_ext_resources.testing.resctrl import tasks
from nova_ext_resources.testing import unmount


def make_parser() -> argparse.ArgumentParser:
    """Declare the options."""
    parser = argparse.ArgumentParser(
        prog='python -m nova_ext_resources.testing.resctrl',
        description='Mounts a folder that answers as /sys/fs/resctrl does '
        'on another machine. Prints its path when it is there, and unmounts '
        'it when it is told to end.',
    )
    shown = parser.add_mutually_exclusive_group()
    shown.add_argument(
        '--shape',
        default='skylake2',
        help=f'{", ".join(shapes.SHAPES)}; or a JSON file that describes one',
    )
    shown.add_argument(
        '--tree', metavar='DIR', help='the captured tree of a real machine'
    )
    parser.add_argument('--mount', metavar='DIR', required=True)
    parser.add_argument(
        '--options',
        metavar='LIST',
        help=f'mount options: {", ".join(sorted(shape_mod.OPTIONS))}',
    )
    parser.add_argument(
        '--tasks',
        choices=('proc', 'made-up'),
        default='proc',
        help='the threads of this machine (the default), or numbers only',
    )
    parser.add_argument(
        '--sysfs',
        metavar='DIR',
        help='write what /sys/devices/system has of the CPUs there',
    )
    parser.add_argument(
        '--control',
        action='store_true',
        help='read what to interfere with from standard input, a line of '
        'JSON each, and end with it; see the module "remote"',
    )
    return parser


def make_shape(options: argparse.Namespace) -> shape_mod.Shape:
    """Make what the options describe.

    :raises ValueError: they describe nothing
    :raises OSError: a file cannot be read
    """
    if options.tree:
        shape = shape_mod.Shape.from_tree(options.tree)
    elif options.shape in shapes.SHAPES:
        shape = shapes.SHAPES[options.shape]
    else:
        shape = _read_shape(options.shape)
    if options.options is not None:
        names = filter(None, options.options.split(','))
        shape = shape.with_options(*names)
    return shape


def _read_shape(path: str) -> shape_mod.Shape:
    """Read a file that describes a machine.

    :raises ValueError: there is none, or it describes nothing
    """
    try:
        with open(path, encoding='utf-8') as stream:
            return shape_mod.Shape.from_dict(json.load(stream))
    except FileNotFoundError:
        raise ValueError(
            f'{path} is no file, and none of the shapes '
            f'{", ".join(shapes.SHAPES)}'
        ) from None
    except (ValueError, LookupError, TypeError) as err:
        raise ValueError(f'{path} describes no machine: {err!r}') from err


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until SIGTERM or SIGINT, or until standard input ends."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    try:
        kernel = kernel_mod.Kernel(
            make_shape(options), tasks=tasks.make(options.tasks)
        )
        # libfuse goes to the root folder: a relative path would be another.
        if options.sysfs:
            _write_sysfs(kernel, os.path.abspath(options.sysfs))
        _serve(kernel, os.path.abspath(options.mount), options.control)
    except (ValueError, OSError, KeyError, fuse.Unavailable) as err:
        parser.exit(2, f'{parser.prog}: {err}\n')
    return 0


def _serve(kernel: kernel_mod.Kernel, path: str, is_controlled: bool) -> None:
    """Mount it until it is told to end.

    :raises ValueError: there is no such folder
    :raises Unavailable: it cannot be mounted
    """
    if not os.path.isdir(path):
        raise ValueError(f'{path} is no folder to mount on')
    interfering = interference.Interference(kernel)

    def on_mounted() -> None:
        _say(path)
        if is_controlled:
            threading.Thread(
                target=_listen, args=(interfering,), daemon=True
            ).start()

    with unmount.unmounted(path):
        fuse.serve(kernel, path, on_mounted)


def _write_sysfs(kernel: kernel_mod.Kernel, folder: str) -> None:
    sysfs.write(kernel.shape, folder)
    kernel.on_cpus.append(
        lambda online: sysfs.write_online(kernel.shape, folder, online)
    )


def _say(line: str) -> None:
    sys.stdout.write(f'{line}\n')
    sys.stdout.flush()


def _listen(interfering: interference.Interference) -> None:
    for line in sys.stdin:
        _say(remote.answer(interfering, line))
    # The main thread is in libfuse, which unmounts on this.
    main_thread = threading.main_thread().ident
    assert main_thread is not None
    signal.pthread_kill(main_thread, signal.SIGTERM)
