# SPDX-License-Identifier: Apache-2.0

"""Sees a life, and checks that the laws hold."""

import logging

from tests.unit.reservation.manager import hearing
from tests.unit.reservation.manager import laws
from tests.unit.reservation.manager import lives
from tests.unit.reservation.manager import processes
from tests.unit.reservation.manager import scenes
from tests.unit.reservation.manager import settled
from tests.unit.reservation.manager import told as told_mod
from tests.unit.reservation.manager import views
from tests.unit.reservation.manager import worlds

#: Seconds from one pass to the next until a manager has done all it can: the
#: clock is trusted, a loss is believed, what is gone was looked for twice, and
#: each host was looked at again at last.
PAUSES = (processes.WAIT + 10, 130, 310, scenes.LOOK_SECONDS)

#: Seconds in which a manager that runs each minute has borrowers gone, of
#: which each has five minutes.
DRAINED = 780

LOG = logging.getLogger('nova_ext_resources')


class Witness:
    """Remembers what it has seen."""

    def __init__(self, life: lives.Life) -> None:
        self._life = life
        self._record = laws.Record()
        self._bugs = hearing.Bugs()
        LOG.addHandler(self._bugs)

    def close(self) -> None:
        LOG.removeHandler(self._bugs)

    def look(self) -> views.View:
        """Check what must hold at any time."""
        assert not self._bugs.texts, self._bugs.texts[0]
        view = self._life.read()
        self._record.look(view, self._life.world)
        return view

    def check_drained(
        self, key: str, manager: processes.Process, grace: int = 0
    ) -> None:
        """Check that borrowers have gone when a reservation begins.

        It begins later than :data:`DRAINED`.

        :param grace: seconds after that in which those still go that stay
            after another reservation
        """
        life, is_due = self._life, True
        start, _end = life.read().during[key]
        life.recover()
        life.pass_by(start - DRAINED - life.now)
        while life.now < start + grace + 60:
            view = self.look()
            if key not in view.during or view.during[key][0] != start:
                return
            scene = scenes.Scene(view=view, world=life.world, now=start)
            is_due &= scene.is_drainable(key, grace)
            life.pass_by(60)
            manager.run()
        reasons = [row.reason for row in self.look().histories[key]]
        assert not is_due or 'room is missing' not in reasons[-1], reasons

    def check_settled(self, manager: processes.Process) -> None:
        """Let a manager do all it can, and check that it did."""
        life = self._life
        life.recover()
        is_well, due_at = life.receivers.is_well, life.read_due()
        began = manager.now
        gone = {*filter(life.world.is_gone, life.read().consumers)}
        for seconds in PAUSES:
            life.pass_by(seconds)
            well = self._see(manager, life.read()).list_well()
            waiting = life.world.waiting
            manager.run()
            view = self.look()
        if any(map(life.world.is_up, worlds.HOSTS)):
            settled.Settled(
                scene=self._see(manager, view),
                began=began,
                gone=gone,
                well=well,
                waiting=waiting,
            ).check()
        is_all = is_well and due_at < manager.now - scenes.LOOK_SECONDS
        self._check_told(view, is_all=is_all)

    def _see(
        self, manager: processes.Process, view: views.View
    ) -> scenes.Scene:
        return scenes.Scene(view=view, world=self._life.world, now=manager.now)

    def _check_told(self, view: views.View, *, is_all: bool) -> None:
        """Check what subscribers were told.

        :param is_all: whether all has arrived
        """
        life, got = self._life, self._life.receivers.got
        told = got.get(life.follower.uuid, ())
        told_mod.check_told(told, self._record.rows, view, is_all=is_all)
        if is_all:
            told_mod.check_amounts(
                got.get(life.watcher.uuid, ()),
                life.count_available(),
                lives.THRESHOLD,
            )
