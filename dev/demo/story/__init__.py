# SPDX-License-Identifier: Apache-2.0

"""The story, one act for each module, in the order of the play."""

from collections.abc import Callable, Collection
import dataclasses

from dev.demo import scene as scenes
from dev.demo.story import balance
from dev.demo.story import boot
from dev.demo.story import burst
from dev.demo.story import discovered
from dev.demo.story import enforced
from dev.demo.story import explained
from dev.demo.story import flavors
from dev.demo.story import floating
from dev.demo.story import given_back
from dev.demo.story import moves
from dev.demo.story import outage
from dev.demo.story import refused
from dev.demo.story import reservation
from dev.demo.story import too_much


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """A part of the story.

    :ivar needs: acts that must be played before
    :ivar backend: the only one that it can be played with; '' for any
    """

    play: Callable[[scenes.Scene], None]
    needs: tuple[str, ...] = ('discovered', 'flavors')
    backend: str = ''


#: The acts, in their order.
ACTS = {
    'discovered': Act(play=discovered.play, needs=()),
    'flavors': Act(play=flavors.play, needs=()),
    'boot': Act(play=boot.play),
    'enforced': Act(play=enforced.play, needs=('boot',), backend='resctrl'),
    'floating': Act(play=floating.play, backend='resctrl'),
    'too-much': Act(play=too_much.play),
    'refused': Act(play=refused.play),
    'given-back': Act(play=given_back.play, needs=('boot',)),
    'moves': Act(play=moves.play),
    'reservation': Act(play=reservation.play),
    'burst': Act(play=burst.play, backend='resctrl'),
    'outage': Act(play=outage.play),
    'balance': Act(play=balance.play, needs=('outage',)),
    'explained': Act(play=explained.play),
}


def choose(names: Collection[str], backend: str) -> list[Act]:
    """Return what is played, in its order.

    :param names: of acts, to which those are added that they need; all
        without any
    :raises ValueError: one of them cannot be played with the backend
    """
    for name in names:
        if ACTS[name].backend not in ('', backend):
            raise ValueError(
                f'the act {name} is played with --backend '
                f'{ACTS[name].backend} only'
            )
    wanted = {*names} or {*ACTS}
    # Later acts first: what they need comes before them.
    for name in reversed(ACTS):
        if name in wanted:
            wanted.update(ACTS[name].needs)
    return [
        act
        for name, act in ACTS.items()
        if name in wanted and act.backend in ('', backend)
    ]


def play(scene: scenes.Scene, names: Collection[str] = ()) -> None:
    """Play acts.

    :param names: as of :func:`choose`
    :raises NotAsTold: a step did not go as the story says
    """
    for act in choose(names, scene.backend):
        act.play(scene)
