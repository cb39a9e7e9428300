# SPDX-License-Identifier: Apache-2.0

"""Why a server did not fit, as the command line explains it."""

from dev.cloud import servers
from dev.cloud import told
from dev.cloud import tree
from dev.demo import scene as scenes
from dev.demo.story import given_back

_FLAVOR = 'gold'


def play(scene: scenes.Scene) -> None:
    """Boot servers until one does not fit, and ask why.

    :raises NotAsTold: the command does not name what is short on each host
    """
    scene.stage.act(
        'Why a server did not fit',
        f'Servers of {_FLAVOR} take the caches until one finds no room. One '
        'command then says what is short where, and which servers have it.',
    )
    name = _fill(scene)
    words = ('extended', 'resource', 'explain', '--server', name)
    command = f'openstack {" ".join(words)}'
    with scene.stage.step(command):
        said = scene.run(*words)
    scene.stage.figure('The explanation', said.splitlines())
    for wanted in (
        f'Server {name} (',
        f'4 {tree.WAYS}',
        *(f'\n{host}: does not fit\n  {tree.WAYS}' for host in scene.hosts),
        'held by full-',
    ):
        told.expect(wanted in said, f'{command} says "{wanted}"', said)
    given_back.delete_all(scene)


def _fill(scene: scenes.Scene) -> str:
    """Boot servers; return the name of the one that did not fit."""
    number = 0
    while True:
        number += 1
        name = f'full-{number}'
        with scene.stage.step(f'Boot {name}, {_FLAVOR}') as step:
            made = scene.ask(name, _FLAVOR)
            if made.status != 'ERROR':
                step.result = f'{made.status} on {made.compute_host}'
                continue
            step.result = f'refused, as it should be: {servers.fault(made)}'
            return name
