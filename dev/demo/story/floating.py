# SPDX-License-Identifier: Apache-2.0

"""Servers whose CPUs float: their threads are what is put into a group."""

from collections.abc import Iterator
import contextlib
import signal

from dev.cloud import child
from dev.cloud import waiting
from dev.demo import kernel
from dev.demo import scene as scenes
from dev.demo.story import boot

_SERVER = 'float-1'

#: The stand-in for its QEMU has so many; see ``dev.demo.guest``.
_THREADS = 4

_READY_SECONDS = 60.0


def play(scene: scenes.Scene) -> None:
    """Boot a floating server, start its guest, and watch its threads.

    :raises NotAsTold: a thread runs outside of the server's group
    """
    scene.stage.act(
        'A server whose CPUs float',
        'It has no CPUs of its own, so its threads are in the group, '
        'wherever they run. Nova\'s fake driver starts no QEMU: a process '
        'with the same command line and the same threads stands in for it.',
    )
    host = boot.boot(scene, _SERVER, 'floating')
    with _guest(scene) as guest:
        _wait_for_threads(scene, host, guest, _THREADS)
        kernel.show(scene, host)
        with scene.stage.step('The guest starts one more thread'):
            guest.send(signal.SIGUSR1)
        _wait_for_threads(scene, host, guest, _THREADS + 1)
    with scene.stage.step(f'Delete {_SERVER}'):
        scene.delete(_SERVER)


@contextlib.contextmanager
def _guest(scene: scenes.Scene) -> Iterator[child.Child]:
    server_id = scene.servers[_SERVER]
    guest = child.Child(
        f'guest-{_SERVER}',
        'dev.demo.guest',
        ['-uuid', server_id],
        folder=scene.cloud.folder,
    )
    try:
        with scene.stage.step(f'Start the guest of {_SERVER}') as step:
            guest.start()
            guest.wait_until(
                lambda: 'up' in guest.tail(), seconds=_READY_SECONDS
            )
            step.result = f'{len(_list_threads(guest))} threads'
        yield guest
    finally:
        guest.stop()


def _wait_for_threads(
    scene: scenes.Scene, host: str, guest: child.Child, count: int
) -> None:
    machine = kernel.get_machine(scene, host)
    group = machine.list_in_force()[scene.servers[_SERVER]].name
    with scene.stage.step('Wait until all of its threads are there') as step:
        waiting.until(
            lambda: (
                len(_list_threads(guest)) == count
                and _list_threads(guest) <= set(machine.list_threads(group))
            ),
            f'all {count} threads of {_SERVER} are in {group}',
        )
        step.result = f'{len(_list_threads(guest))} in {group}/tasks'


def _list_threads(guest: child.Child) -> set[int]:
    return kernel.list_threads(guest.pid or 0)
