# SPDX-License-Identifier: Apache-2.0

"""The model of the walk does what the product does."""

from collections.abc import Iterator
import random

import fixtures

from nova_ext_resources.host.claims import entry_table
from tests import base
from tests.explore import machine
from tests.explore import replay
from tests.explore import world
from tests.unit.host import with_host

Event = entry_table.EntryEvent

#: Of each walk.
MOVES = 120

#: The events that no move is: in the small world no guest starts by itself,
#: and no ledger is lost.
ABSENT = {Event.KEEP, Event.RECOGNIZE}

#: Two events in one transaction.
HELD = {Event.PARK, Event.EXCHANGE}

#: What walks begin rather than anything else: it takes many moves.
LONG = tuple(f'begin to {name}' for name in ('resize', 'revert', 'confirm'))


def make_walk(
    made: machine.Machine, chosen: random.Random
) -> Iterator[tuple[machine.Move, bytes]]:
    """Yield moves at random, and the states that they lead to."""
    state = bytes(world.make_first())
    for _number in range(MOVES):
        found = [*made.list_next(state)]
        # Most of all that could go wrong goes well.
        good = [
            one
            for one in found
            if one[0].outcome != 'refused'
            and not one[0].what.startswith(('kill', 'boot', 'begin to del'))
        ]
        long = [one for one in good if one[0].what.startswith(LONG)]
        some = long if long and chosen.random() < 0.5 else good
        move, after = chosen.choice(
            some if some and chosen.random() > 0.05 else found
        )
        if move.what.endswith(entry_table.EntryAction.TAKE) and (
            _is_tracked_otherwise(state, move.host)
        ):
            return
        state = bytes(after)
        yield move, state


def _is_tracked_otherwise(state: bytes, host: int) -> bool:
    """Return whether free units depend on which of them are in use.

    The units of a replay are all alike, and no inventory provider looks at
    the host.
    """
    own = host * world.HOST_SIZE
    return any(
        state[own + world.FORMER + one] for one in world.SERVERS
    ) or any(
        state[own + world.APPLIED + one]
        and not state[own + world.MEMORY + one]
        for one in world.CONSUMERS
    )


class ReplayTest(base.TestCase):
    def test_real_hosts_have_the_entries_of_the_walk(self) -> None:
        seen = set()
        made = machine.Machine(machine.Protocol(), machine.Scope(max_faults=4))
        for seed in range(40):
            with self.subTest(seed=seed):
                seen.update(self.play(made, random.Random(seed)))

        events = {str(one) for one in set(Event) - ABSENT - HELD}
        self.assertEqual(set(), {'hold', *events} - seen)

    def play(self, made: machine.Machine, chosen: random.Random) -> set[str]:
        """Play one walk; return the events in it."""
        folder = fixtures.TempDir(rootdir=with_host.MEMORY)
        done: list[machine.Move] = []
        with folder:
            hosts = replay.Replay(folder.path, made)
            try:
                for move, after in make_walk(made, chosen):
                    done.append(move)
                    hosts.do(move, after)
                    self.assertEqual(
                        replay.expect(after), hosts.read(), move.what
                    )
            finally:
                hosts.close()
        return {one.what.partition(': ')[0] for one in done}
