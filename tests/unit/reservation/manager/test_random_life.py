# SPDX-License-Identifier: Apache-2.0

"""Hours in the life of reservations and their managers, at random.

Users reserve, change and cancel; servers come and go, with a place and
without; hosts are lost and come back; Nova, placement, the database and
receivers are away for a while; managers die at any step, and two of them run
at once. What must hold at any time is checked after each step, and the rest
when a manager could reach all for some minutes: see :mod:`.laws` and
:mod:`.settled`.

``RESERVATION_CASES`` and ``RESERVATION_SEED`` say how many, and which.
"""

from collections.abc import Callable
import pathlib
import shutil
import tempfile
from typing import ClassVar

import hypothesis
from hypothesis import stateful
from hypothesis import strategies as st

from nova_ext_resources.reservation import lending
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.reservation import state as state_mod
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import retry
from nova_ext_resources.reservation.store import schema
from tests import base
from tests.unit.reservation.manager import breaking
from tests.unit.reservation.manager import deeds as deeds_mod
from tests.unit.reservation.manager import dice as dice_mod
from tests.unit.reservation.manager import laws
from tests.unit.reservation.manager import lives
from tests.unit.reservation.manager import processes
from tests.unit.reservation.manager import scenes
from tests.unit.reservation.manager import settled
from tests.unit.reservation.manager import witness as witness_mod
from tests.unit.reservation import test_calendar

#: A life takes about two seconds.
EXAMPLES = max(test_calendar.CASES // 60, 1)

#: What happens next; some of it more often.
HAPPENINGS = (
    *('settle', 'take') * 5,
    *('lose_host', 'lose_place', 'go', 'run', 'run_beside', 'die') * 3,
    *('drain', 'reserve', 'boot', 'lose') * 2,
    *('replace', 'cancel', 'move', 'maintain', 'cut', 'withdraw', 'resize'),
    *('step_clock', 'fail', 'fail_receivers'),
)

#: What happens in the middle of a pass.
BESIDE = (
    *('other', 'fault', 'fail', 'take', 'lose', 'cancel', 'change_host'),
    *('boot', 'reserve', 'replace', 'withdraw', 'maintain', 'cut', 'resize'),
)

#: With fewer reservations another one is made first.
ALIVE = 2

#: Seconds after something begins or ends.
MOMENTS = (5, 70, 400, 1100, -1, -300, -700, -3900)

#: Seconds before the start from which on room is held, without the filter.
LEAD = 1000

#: Steps of a pass: it has about a hundred.
STEPS = 80


class Walk(stateful.RuleBasedStateMachine):
    """What happens, drawn by hypothesis."""

    template: ClassVar[pathlib.Path]

    @stateful.initialize(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """Begin with reservations and servers."""
        self.dice = dice_mod.Dice()
        self.dice.data = data
        self.folder = pathlib.Path(tempfile.mkdtemp())
        # All of it: SQLite keeps what is new in a file of its own.
        shutil.copytree(self.template, self.folder, dirs_exist_ok=True)
        url = f'sqlite:///{self.folder}/reservations.db'
        lead = self.dice.choose('lead', (None, None, LEAD))
        self.life = lives.Life(url, lead)
        self.deeds = deeds_mod.Deeds(self.life, self.dice)
        self.witness = witness_mod.Witness(self.life)
        for _reservation in range(self.dice.choose('reservations', (2, 3, 4))):
            self.deeds.reserve()
        for _server in range(self.dice.choose('servers', (1, 2, 3))):
            self.deeds.boot()

    def teardown(self) -> None:
        if hasattr(self, 'witness'):
            self.witness.close()
            self.life.close()
            shutil.rmtree(self.folder)

    @stateful.rule(data=st.data(), what=st.sampled_from(HAPPENINGS))
    def happen(self, data: st.DataObject, what: str) -> None:
        self.dice.data = data
        if len(self.life.read().unfinished) < ALIVE:
            self.deeds.reserve()
        self.do(what)

    def do(self, what: str) -> None:
        getattr(self if hasattr(self, what) else self.deeds, what)()

    @stateful.invariant()
    def all_laws_hold(self) -> None:
        self.witness.look()

    def choose_manager(self) -> processes.Process:
        return self.life.managers[self.dice.choose('who', (0, 1))]

    # Time

    def go(self) -> None:
        """Go to when a reservation begins or ends, or for a while."""
        key = self.deeds.find_reservation()
        seconds = self.dice.choose('after', MOMENTS)
        if key is None:
            self.life.pass_by(abs(seconds))
            return
        during = self.life.read().during[key]
        time = self.dice.choose('of', during) + seconds
        manager = self.choose_manager()
        passes = self.dice.choose('passes', (1, 3, 0))
        left = max(time - self.life.now, 0) // (passes + 1)
        for _pass in range(passes):
            self.life.pass_by(left)
            manager.run()
            self.witness.look()
        self.life.pass_by(left)

    # Managers

    def run(self) -> None:
        self.choose_manager().run()

    def die(self) -> None:
        """Kill a manager at a step of a pass."""
        self.plan(_die)
        self.run()

    def plan(
        self, happen: Callable[[], None], *, is_apart: bool = False
    ) -> None:
        """Have something happen at a step of the next pass."""
        step = self.dice.choose_number('step', STEPS)
        self.life.steps.plan(step, happen, is_apart=is_apart)

    def run_beside(self) -> None:
        """Have something else happen in the middle of a pass."""
        manager = self.choose_manager()
        (other,) = {*self.life.managers} - {manager}
        what = self.dice.choose('beside', BESIDE)
        self.life.pass_by(self.dice.choose('pause', (70, 0)))

        def happen() -> None:
            if what == 'other':
                other.run()
            elif what == 'fault':
                fault = self.dice.choose('fault', [*breaking.Fault])
                manager.database.fault = fault
            else:
                self.do(what)

        self.plan(happen, is_apart=True)
        manager.run()

    # What a manager has done

    def settle(self) -> None:
        """Go somewhere, and check what a manager does there."""
        if self.dice.choose('go before', (True, False)):
            self.go()
        self.check_settled()

    def lose_place(self) -> None:
        """Check what a manager does about a server with a place that is lost.

        Some time later: a server may be built still, or be moved.
        """
        self.deeds.take()
        self.deeds.lose()
        self.life.pass_by(settled.GRACE_SECONDS)
        self.check_settled()

    def lose_host(self) -> None:
        """Check what a manager does about a host that is away, or back."""
        self.deeds.change_host()
        self.check_settled()

    def drain(self) -> None:
        """Check that borrowers have gone when a reservation begins."""
        view, soon = self.life.read(), self.life.now + witness_mod.DRAINED
        later = [key for key in view.unfinished if view.during[key][0] > soon]
        key = self.dice.find('reservation', later)
        if key is not None:
            grace = self.dice.choose(
                'grace', (0, lending.LEAVE_SECONDS + laws.SKEW)
            )
            self.witness.check_drained(key, self.choose_manager(), grace)

    def check_settled(self) -> None:
        self.witness.check_settled(self.choose_manager())


def _die() -> None:
    raise breaking.Died


class RandomLifeTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.patch(retry, 'FIRST_PAUSE', 0)
        self.patch(retry, 'LONGEST_PAUSE', 0)
        self.folder = pathlib.Path(self.make_folder())
        self.url = f'sqlite:///{self.folder}/reservations.db'
        schema.upgrade(databases.Database(self.url))

    def test_walk(self) -> None:
        Walk.template = self.folder
        hypothesis.seed(test_calendar.SEED)(Walk)
        stateful.run_state_machine_as_test(
            Walk,
            settings=hypothesis.settings(
                max_examples=EXAMPLES,
                stateful_step_count=25,
                database=None,
                deadline=None,
            ),
        )

    def test_a_server_that_stays_is_in_the_way(self) -> None:
        life = lives.Life(self.url, None)
        self.addCleanup(life.close)
        witness = witness_mod.Witness(life)
        self.addCleanup(witness.close)
        life.askers.reserve(0, 400, 8, at_end=plan_request.AtEnd.SHELVE)
        life.boots.boot_reserved('lease 1', is_lost=False)
        life.world.change('server 1', status='ERROR')
        life.askers.reserve(400, 8000, 8, least=3)
        life.pass_by(400 + scenes.LEAVE_SECONDS)

        witness.check_settled(life.managers[0])

        state = life.read().get_state('lease 2')
        self.assertEqual(state_mod.State.DEGRADED, state)

    def test_one_that_may_stay_is_in_the_way_for_minutes(self) -> None:
        for lead in (None, LEAD):
            with self.subTest(lead=lead):
                self.check_kept(lead)

    def check_kept(self, lead: int | None) -> None:
        folder = pathlib.Path(self.make_folder())
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        life = lives.Life(f'sqlite:///{folder}/reservations.db', lead)
        self.addCleanup(life.close)
        witness = witness_mod.Witness(life)
        self.addCleanup(witness.close)
        life.askers.reserve(0, 4000, 8)
        if lead is None:
            life.boots.boot_reserved('lease 1', is_lost=False)
        else:
            life.boots.boot_waiting('lease 1', 'a', 8)
            life.managers[0].run()
        life.askers.reserve(4000, 8000, 8, least=3)
        self.assertEqual({'server 1'}, {*life.read().consumers})

        witness.check_drained(
            'lease 2',
            life.managers[0],
            lending.LEAVE_SECONDS + laws.SKEW,
        )

        states = [one.state for one in life.read().histories['lease 2']]
        self.assertEqual(state_mod.State.ACTIVE, states[-1])
        self.assertIn(state_mod.State.DEGRADED, states)
