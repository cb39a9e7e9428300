# SPDX-License-Identifier: Apache-2.0

"""What users and operators do, and what breaks, at random."""

from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import plan_request
from tests.unit.reservation.manager import dice as dice_mod
from tests.unit.reservation.manager import hearing
from tests.unit.reservation.manager import lives
from tests.unit.reservation.manager import worlds

#: What the flavor of a server says, besides its amounts.
LEASES: tuple[dict[str, str], ...] = (
    {'preemptible': 'true', 'drain_seconds': '60'},
    {'preemptible': 'true', 'drain_seconds': '0', 'on_drain': 'delete'},
    {'max_seconds': '1800'},
    {'max_seconds': '3600', 'preemptible': 'true'},
    {},
)


class Deeds:
    """Done to a life; each is a method without arguments."""

    def __init__(self, life: lives.Life, dice: dice_mod.Dice) -> None:
        self._life, self._dice = life, dice

    def find_reservation(self) -> str | None:
        """Choose a reservation whose end has not come."""
        view = self._life.read()
        return self._dice.find(
            'reservation',
            (
                key
                for key in view.unfinished
                if self._life.now < view.during[key][1]
            ),
        )

    # Reservations

    def reserve(self) -> None:
        dice = self._dice
        self._life.askers.reserve(
            dice.choose_later(),
            dice.choose_seconds(),
            dice.choose_amount(),
            least=dice.choose('servers', (1, 2, 3)),
            priority=dice.choose('priority', (0, 1)),
            expires_after=dice.choose('expires', (None, None, 300, 1000)),
            at_end=dice.choose('at end', [*plan_request.AtEnd]),
        )

    def replace(self) -> None:
        key = self.find_reservation()
        if key is None:
            return
        now, view = self._life.now, self._life.read()
        start, _end = view.during[key]
        begin = now + 301 + self._dice.choose_later()
        if start <= now + 300:
            begin = start
        end = max(begin, now) + self._dice.choose_seconds()
        self._life.askers.replace(
            view.requests[key],
            interval.Interval(begin, end),
            self._dice.choose('servers', (1, 2, 3)),
        )

    def cancel(self) -> None:
        key = self.find_reservation()
        if key is not None:
            self._life.askers.cancel(key)

    # Servers

    def boot(self) -> None:
        """Create a server without a reservation."""
        dice = self._dice
        self._life.boots.boot(
            dice.choose_host(),
            dice.choose_amount(),
            dice.choose('lease', LEASES),
            is_rude=dice.choose('is rude', (False, True)),
        )

    def take(self) -> None:
        """Create servers in a reservation, once it has started."""
        view, now = self._life.read(), self._life.now
        free = {
            slot.reservation
            for slot in view.slots
            if slot.consumer is None and now < slot.end
        }
        key = self._dice.find('reservation', sorted(free))
        if key is None:
            return
        self._life.pass_by(max(view.during[key][0] - now, 0))
        boots, dice = self._life.boots, self._dice
        if not self._life.world.keeps_room:
            boots.boot_waiting(key, dice.choose_host(), dice.choose_amount())
            return
        for _server in range(dice.choose('servers', (1, 2))):
            is_lost = dice.choose('is lost', (False, False, False, True))
            boots.boot_reserved(key, is_lost=is_lost)

    def lose(self) -> None:
        """Lose a server, and what it has, or only its health."""
        world, dice = self._life.world, self._dice
        taken = sorted(world.servers.keys() & self._life.read().consumers)
        is_taken = bool(taken) and dice.choose('has a place', (True, False))
        uuid = dice.find('server', taken if is_taken else world.servers)
        if uuid is None:
            return
        match dice.choose('how', ('delete', 'shelve', 'no host', 'error')):
            case 'delete':
                world.delete(uuid)
            case 'shelve':
                world.leave(uuid)
                world.change(uuid, status='SHELVED_OFFLOADED')
            case 'no host':
                world.leave(uuid)
                world.change(uuid, status='ERROR')
            case _:
                world.change(uuid, status='ERROR')

    def move(self) -> None:
        uuid = self._dice.find('server', self._life.world.servers)
        if uuid is not None:
            self._life.world.move(uuid, self._dice.choose_host())

    # Hosts

    def change_host(self) -> None:
        """Have a host be away, or one that is away be back."""
        world, dice = self._life.world, self._dice
        away = [one for one in worlds.HOSTS if not world.is_up(one)]
        if bool(away) and dice.choose('is back', (True, False)):
            world.turn_host(dice.choose('host', away), 'back')
            return
        how = dice.choose('how', ('lose', 'down', 'disable'))
        used = sorted({one.host for one in self._life.read().slots}) or ['a']
        world.turn_host(dice.choose('host', used), how)

    def resize(self) -> None:
        host = self._dice.choose_host()
        capacity = self._dice.choose('capacity', (8, 4, 5, 1))
        self._life.world.resize(host, capacity)

    def maintain(self) -> None:
        dice = self._dice
        self._life.askers.maintain(
            dice.choose_host(), dice.choose_later(), dice.choose_seconds()
        )

    def cut(self) -> None:
        """Plan less of a host, of which placement shows nothing."""
        dice = self._dice
        self._life.askers.cut(
            dice.choose_host(),
            dice.choose('less', (4, 2, 7)),
            dice.choose_later(),
            dice.choose_seconds(),
        )

    def withdraw(self) -> None:
        key = self._dice.find('change', self._life.read().changes)
        if key is not None:
            self._life.askers.withdraw(key)

    # What is away, or set

    def fail(self) -> None:
        """Have something be away, or all be back."""
        life, dice = self._life, self._dice
        match dice.choose('what', ('nova', 'placement', 'database', 'back')):
            case 'nova':
                life.world.is_nova_away = True
            case 'placement':
                life.world.is_placement_away = True
            case 'database':
                which = dice.choose('whose', (0, 1))
                life.managers[which].database.is_away = True
            case _:
                life.recover()

    def fail_receivers(self) -> None:
        mood = self._dice.choose('mood', [*hearing.Mood])
        self._life.receivers.mood = mood

    def step_clock(self) -> None:
        seconds = self._dice.choose('clock', (-30, 30, -1000, 1000, -6000))
        self._life.step_clock(seconds)
