# SPDX-License-Identifier: Apache-2.0

"""The host has the final say: it refuses what placement agreed to."""

from dev.cloud import servers
from dev.cloud import told
from dev.demo import ballast
from dev.demo import landed
from dev.demo import reasons
from dev.demo import scene as scenes
from dev.demo.story import boot

_FOREIGN = 'other-software'
_SERVER = 'late-1'

#: A host may publish in the moment between; that is no failure. A host looks
#: at resctrl each few seconds, and a busy machine takes as long for a boot.
_ATTEMPTS = 12


def play(scene: scenes.Scene) -> None:
    """Take a host's ways behind its back, then boot there.

    :raises NotAsTold: the host did not refuse, or no other host took over
    """
    scene.stage.act(
        'A host refuses, another one takes over',
        'Other software takes the free ways of a host just after it has '
        'published them. Placement and the scheduler still believe in them.',
    )
    host = scene.hosts[0]
    mark = scene.journal.mark()
    with ballast.prefer(scene, host):
        for _attempt in range(_ATTEMPTS):
            asked = _boot_behind_its_back(scene, host)
            if asked[0] == host:
                break
            scene.stage.note(
                f'{host} published the loss before the scheduler chose; '
                f'once more.'
            )
            scene.delete(_SERVER)
    scene.stage.table(
        'Who was asked to build it, from Nova\'s instance actions',
        ('host', 'outcome'),
        [*((one, 'refused') for one in asked[:-1]), (asked[-1], 'built it')],
    )
    reasons.show(scene, mark, reasons.CLAIM, host=host)
    told.expect(
        asked[0] == host and len(asked) == 2,
        f'{host} refuses {_SERVER} and another host builds it',
        asked,
    )
    landed.show(scene, [_SERVER])


def _boot_behind_its_back(scene: scenes.Scene, host: str) -> list[str]:
    """Return the hosts that were asked, the last of which built the server."""
    machine = scene.machines[host]
    with scene.stage.step(f'Wait until {host} has looked at its cache'):
        machine.wait_for_look()
    with scene.stage.step(f'Other software takes the free cache of {host}'):
        machine.take_free_ways(_FOREIGN)
    boot.boot(scene, _SERVER, 'silver')
    machine.give_ways_back(_FOREIGN)
    attempts = servers.list_attempts(scene.sdk, scene.servers[_SERVER])
    return [one.host for one in attempts]
