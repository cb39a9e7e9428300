# SPDX-License-Identifier: Apache-2.0

"""The story, one act for each module, in the order of the play."""

from demo import scene as scenes
from demo.story import balance
from demo.story import boot
from demo.story import burst
from demo.story import discovered
from demo.story import enforced
from demo.story import flavors
from demo.story import floating
from demo.story import given_back
from demo.story import moves
from demo.story import outage
from demo.story import refused
from demo.story import too_much

#: The acts, in their order.
ACTS = (
    discovered.play,
    flavors.play,
    boot.play,
    enforced.play,
    floating.play,
    too_much.play,
    refused.play,
    given_back.play,
    moves.play,
    burst.play,
    outage.play,
    balance.play,
)

#: Those that are about the kernel's own interface.
KERNEL_ACTS = (enforced.play, floating.play, burst.play)


def play(scene: scenes.Scene) -> None:
    """Play all acts.

    :raises NotAsTold: a step did not go as the story says
    """
    for act in ACTS:
        if act not in KERNEL_ACTS or scene.backend == 'resctrl':
            act(scene)
