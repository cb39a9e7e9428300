# SPDX-License-Identifier: Apache-2.0

"""A guest: an emulated machine that runs a kernel, and commands in it."""

from collections.abc import Iterator
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
from typing import IO

from dev.kernel.boot import initramfs
from dev.kernel import machines

#: Seconds for a guest to come up; the most CPUs take longest.
BOOT = 600.0

#: Seconds for it to switch itself off.
END = 20.0

_PAUSE = 0.3

#: Firmware of Debian's packages.
_FIRMWARE = ('/usr/share/qemu', '/usr/share/seabios')

#: Time of a guest whose CPUs take turns is no time to watch, and its console
#: is slow.
_KERNEL_WORDS = (
    'console=ttyS0 panic=-1 quiet edd=off tsc=reliable lpj=8400000 '
    'no_timer_check nowatchdog mitigations=off audit=0 '
    'rcupdate.rcu_cpu_stall_suppress=1'
)


class Lost(Exception):
    """A guest or a command in it did not end in time, or ended early."""


def say(name: str, line: str) -> None:
    """Print it with the name of a guest.

    In one piece: lines of guests that run beside each other do not mix.
    """
    sys.stdout.write(f'{name}: {line}\n')
    sys.stdout.flush()


class Output:
    """What a step writes, printed by line, each with the name of its guest.

    :param stream: of the file that grows
    """

    def __init__(self, stream: IO[str], name: str) -> None:
        self._stream = stream
        self._name = name
        self._rest = ''

    def copy(self, *, is_over: bool = False) -> None:
        """Print what has come; what is no whole line yet, when it is over."""
        *lines, self._rest = (self._rest + self._stream.read()).split('\n')
        if is_over and self._rest:
            lines.append(self._rest)
        for line in lines:
            say(self._name, line)


class Guest:
    """One that runs; end it with :meth:`stop`.

    :param folder: is ``/run/out`` in the guest
    """

    def __init__(
        self, process: subprocess.Popen[bytes], folder: pathlib.Path
    ) -> None:
        self._process = process
        self.folder = folder

    def wait_until_up(self) -> None:
        """Wait until it takes commands.

        :raises Lost: it does not come up
        """
        self._wait('up', BOOT)

    def run(self, script: str, seconds: float) -> int:
        """Run a shell script in it, print its output, return its status.

        Each line begins with the name of the guest: several run at a time.

        :raises Lost: it takes longer
        """
        for name in ('ended', 'output'):
            (self.folder / name).unlink(missing_ok=True)
        (self.folder / 'output').touch()
        (self.folder / 'job.new').write_text(script)
        with (self.folder / 'output').open(errors='replace') as stream:
            output = Output(stream, self.folder.name)
            (self.folder / 'job.new').rename(self.folder / 'job')
            self._wait('ended', seconds, output)
            output.copy(is_over=True)
        return int((self.folder / 'ended').read_text())

    def _wait(
        self, name: str, seconds: float, output: Output | None = None
    ) -> None:
        deadline = time.monotonic() + seconds
        while not (self.folder / name).exists():
            if output is not None:
                output.copy()
            if self._process.poll() is not None:
                raise Lost(f'the guest has ended; see {self.folder}/console')
            if time.monotonic() > deadline:
                raise Lost(
                    f'no "{name}" after {seconds:.0f} s; see '
                    f'{self.folder}/console and {self.folder}/output'
                )
            time.sleep(_PAUSE)

    def stop(self) -> None:
        """End it, whatever it does."""
        (self.folder / 'stop').touch()
        try:
            self._process.wait(END)
        except subprocess.TimeoutExpired:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()


@contextlib.contextmanager
def running(
    qemu: pathlib.Path,
    tree: pathlib.Path,
    machine: machines.Machine,
    folder: pathlib.Path,
) -> Iterator[Guest]:
    """Have a guest that takes commands.

    :param tree: an unpacked kernel
    :param folder: made anew
    :raises Lost: it does not come up
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(pathlib.Path(__file__).parent / 'loop.sh', folder)
    initramfs.write(tree, folder / 'initramfs')
    with (folder / 'console.qemu').open('w') as said:
        process = subprocess.Popen(
            list_words(qemu, tree, machine, folder),
            env={**os.environ, 'QEMU_RDT': machine.describe()},
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=subprocess.STDOUT,
            # Ctrl-C is for us, who then end it.
            start_new_session=True,
        )
    guest = Guest(process, folder)
    try:
        guest.wait_until_up()
        yield guest
    finally:
        guest.stop()


def list_words(
    qemu: pathlib.Path,
    tree: pathlib.Path,
    machine: machines.Machine,
    folder: pathlib.Path,
) -> list[str]:
    """Return the command line of the emulator.

    All CPUs take turns in one thread: this QEMU lost code that a kernel
    patches while it runs (at each mount of resctrl) when they did not.
    """
    # It ends with us, even where we are killed.
    words = ['setpriv', '--pdeathsig', 'KILL', str(qemu)]
    for firmware in _FIRMWARE:
        words += ['-L', firmware]
    words += ['-accel', 'tcg,thread=single,tb-size=512']
    words += ['-machine', 'q35', *machine.list_words()]
    words += ['-display', 'none', '-nodefaults', '-no-reboot']
    words += ['-serial', f'file:{folder}/console']
    words += ['-kernel', str(initramfs.find_kernel(tree))]
    words += ['-initrd', f'{folder}/initramfs', '-append', _KERNEL_WORDS]
    for tag, path, more in (
        ('host', '/', ',readonly=on,multidevs=remap'),
        ('out', str(folder), ''),
    ):
        words += [
            '-virtfs',
            f'local,path={path},mount_tag={tag},security_model=none{more}',
        ]
    return words
