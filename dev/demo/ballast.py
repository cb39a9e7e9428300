# SPDX-License-Identifier: Apache-2.0

"""Make the scheduler prefer one host, with ordinary means.

Nova's weigher of memory prefers hosts with more free memory, and the demo
gives it the last word: a big server without extended resources on every
*other* host makes the remaining one the first choice, for as long as those
servers exist.
"""

from collections.abc import Iterator
import contextlib

from dev.cloud import servers
from dev.demo import scene as scenes

#: Name of the flavor that only takes memory.
FLAVOR = 'ballast'


@contextlib.contextmanager
def prefer(scene: scenes.Scene, host: str) -> Iterator[None]:
    """Keep every other host loaded inside the context.

    After an error nothing is cleaned up: the cloud ends anyway, and may be
    what is broken.
    """
    others = [one for one in scene.hosts if one != host]
    with scene.stage.step(
        f'Load {", ".join(others)} with memory, so that the scheduler '
        f'prefers {host}'
    ):
        for other in others:
            servers.check_active(scene.ask(_name(other), FLAVOR, host=other))
    yield
    for other in others:
        scene.delete(_name(other))


def _name(host: str) -> str:
    return f'ballast-{host}'
