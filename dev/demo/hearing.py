# SPDX-License-Identifier: Apache-2.0

"""Know when the scheduler has heard what hosts have to say.

Hosts tell the scheduler how they are through Nova's periodic task, which
says in the log when it begins and ends.
"""

from collections.abc import Iterable

from dev.cloud import waiting
from dev.demo import scene as scenes

_LOGGER = 'nova.compute.resource_tracker'
_BEGINS = 'Auditing locally available compute resources for '
_ENDS = 'Final resource view: '


def wait(scene: scenes.Scene, hosts: Iterable[str]) -> None:
    """Wait until each of the hosts has told all that it knows by now.

    :raises NotAsTold: one never tells
    """
    mark = scene.journal.mark()
    with scene.stage.step('Wait until the scheduler has heard of it'):
        waiting.until(
            lambda: all(_has_told(scene, mark, host) for host in hosts),
            'every host tells the scheduler about itself',
        )


def _has_told(scene: scenes.Scene, mark: int, host: str) -> bool:
    said = [line.message for line in scene.journal.since(mark, _LOGGER)]
    begun = [
        number
        for number, message in enumerate(said)
        if message.startswith(f'{_BEGINS}{host} ')
    ]
    return bool(begun) and any(
        message.startswith(_ENDS) and f'name={host} ' in message
        for message in said[begun[0] :]
    )
