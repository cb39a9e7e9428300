# SPDX-License-Identifier: Apache-2.0

"""Hands a host over, and can be killed at any line.

Everything is released at the one backend before anything is applied at the
other, because both give out the same classes of service of one CPU. Meanwhile
servers run on, without what they were sold.

The ledger tells how far each server is: ``CLAIMED`` is in force nowhere, as
far as is known, and ``APPLIED`` at the backend that the journal says. A start
of nova-compute would put into force what is not; so does going on, or back.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
import dataclasses

from oslo_utils import uuidutils

from nova_ext_resources.claims import base as claims_base
from nova_ext_resources.drivers import base as drivers_base
from nova_ext_resources import exception
from nova_ext_resources.host import enforcement
from nova_ext_resources.host.handover import errors
from nova_ext_resources.host.handover import journal as journal_mod
from nova_ext_resources.host.handover import messages
from nova_ext_resources.host.handover import plan as plan_mod
from nova_ext_resources.host import ledger as ledger_mod
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import constraints

Phase = journal_mod.Phase
State = assignment.State

#: Something may still be in force at the source.
_RELEASING = (Phase.RELEASING, Phase.RETURNING)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """The two plugins of one name.

    Those of the target read the ledger's entries. Those of the source read
    none: no server stays there for which they had to keep a pool.
    """

    name: str
    inventory: drivers_base.InventoryProvider
    enforcer: drivers_base.Enforcer


class HandOver:
    """Moves everything that the ledger says from one backend to another.

    :param ledger: open, so that nova-compute cannot run
    :param say: gets a line for each thing that happens
    """

    def __init__(
        self,
        *,
        host: str,
        source: Backend,
        target: Backend,
        ledger: ledger_mod.Ledger,
        trackers: Mapping[str, claims_base.Tracker],
        tests: Sequence[claims_base.ClaimTest],
        say: Callable[[str], object] = print,
    ) -> None:
        self._host = host
        self._source, self._target = source, target
        self._ledger = ledger
        self._journal = journal_mod.Journal(ledger.path)
        self._trackers, self._tests = trackers, tests
        self._say = say
        self._entries = ledger.list_entries()

    def check(self, *, is_source_gone: bool = False) -> None:
        """Make sure, as far as can be told now, that it can be done.

        Changes nothing. What is in force at the source is counted as free.

        :raises HandOverFailed: it cannot
        """
        self._ask_source(is_gone=is_source_gone, is_new=True)
        plan = self._plan(
            self._list_ours(), is_before=True, is_held=not is_source_gone
        )
        self._refuse_obstacles(plan, messages.UNCHANGED)
        for entry in plan.entries:
            self._say(f'would apply {messages.describe(entry)}')
            self._note_wishes(entry)

    def run(
        self, *, is_checked: bool = True, is_source_gone: bool = False
    ) -> None:
        """Hand over, or go on with it, or go back.

        :param is_checked: whether to ``check`` first
        :param is_source_gone: nothing is in force at the source any more,
            and it cannot be asked
        :raises HandOverFailed: it has stopped; says in what state
        :raises LedgerError: ledger or journal cannot be written
        """
        is_new, phase = self._find_phase()
        if phase in _RELEASING:
            if is_new and is_checked:
                self.check(is_source_gone=is_source_gone)
            else:
                self._ask_source(is_gone=is_source_gone, is_new=is_new)
            if is_checked and not is_new:
                self._ask_target()
            self._begin(phase)
            phase = self._release_all(phase, is_source_gone=is_source_gone)
        self._begin(phase)
        self._apply_all()
        # Until nova-compute runs with the target it must not with the source.
        self._begin(Phase.DONE)

    # -- where it is ---------------------------------------------------

    def _find_phase(self) -> tuple[bool, Phase]:
        """Give whether it has not begun yet, and where to go on.

        :raises HandOverFailed: another one is under way
        """
        found = self._journal.read()
        if found is None:
            return True, Phase.RELEASING
        source, target = self._source.name, self._target.name
        phase = found.find_next(source, target)
        if phase is None:
            raise self._fail(
                f'one from {found.source} to {found.target} is under way; '
                'end it, or go back, before you begin another.'
            )
        if found.phase is Phase.DONE and source == found.target:
            return True, phase
        self._say(
            f'going on, in phase {phase}'
            if source == found.source
            else f'going back to {target}'
        )
        return False, phase

    def _begin(self, phase: Phase) -> Phase:
        self._journal.write(
            journal_mod.Progress(
                source=self._source.name,
                target=self._target.name,
                phase=phase,
            )
        )
        return phase

    def _list_ours(self) -> list[assignment.Entry]:
        """Return what is handed over; what is being released is not."""
        classes = self._source.enforcer.RESOURCE_CLASSES
        return [
            entry
            for _uuid, entry in sorted(self._entries.items())
            if any(
                classes is None or one.resource_class in classes
                for one in entry.assignments
            )
        ]

    def _put(self, entry: assignment.Entry) -> None:
        self._ledger.put(entry)
        self._entries = {**self._entries, entry.consumer_uuid: entry}

    # -- phase one -----------------------------------------------------

    def _ask_source(self, *, is_gone: bool, is_new: bool) -> None:
        """Make sure that the source is there, or that it is not.

        :param is_new: nothing can have been released there yet
        :raises HandOverFailed: it is the other way round, or has nothing of
            what the ledger says
        """
        name = self._source.name
        ours = self._list_ours()
        try:
            applied = self._source.enforcer.list_applied()
        except exception.ExtResourcesError as err:
            if is_gone:
                return
            raise self._fail(f'{err}\n{messages.tell_unasked(name)}') from err
        known = {one.consumer_uuid for one in ours}
        there = known & (applied or frozenset())
        if is_gone and there:
            raise self._fail(messages.tell_answered(name, len(there)))
        settled = [one for one in ours if one.state is State.APPLIED]
        if is_new and settled and not (there or is_gone):
            raise self._fail(
                messages.tell_elsewhere(name, self._target.name, len(settled))
            )

    def _ask_target(self) -> None:
        """Make sure that the target answers before more is released.

        :raises HandOverFailed: it does not
        """
        try:
            self._target.enforcer.list_applied()
        except exception.ExtResourcesError as err:
            name = self._target.name
            raise self._fail(f'{err}\n{messages.tell_absent(name)}') from err

    def _write_off(self) -> None:
        """Take note that nothing is in force at the source."""
        for entry in self._list_ours():
            if entry.state is not State.RELEASING:
                self._put(dataclasses.replace(entry, state=State.CLAIMED))
            self._say(f'written off {entry.consumer_uuid}')

    def _release_all(self, phase: Phase, *, is_source_gone: bool) -> Phase:
        """Leave nothing of ours in force at the source; give what is next."""
        if is_source_gone:
            self._write_off()
        else:
            self._release()
        # Who goes back may find some where it goes to.
        is_back = phase is Phase.RETURNING
        return Phase.APPLYING if is_back else Phase.RELEASED

    def _release(self) -> None:
        """Take everything of ours out of force at the source."""
        known = self._list_ours()
        side = self._make_enforcement(self._source)
        failures: list[exception.ExtResourcesError] = []
        for entry in known:
            done, failed = side.release_all([entry])
            failures += failed
            if done:
                if entry.state is not State.RELEASING:
                    self._put(dataclasses.replace(entry, state=State.CLAIMED))
                self._say(f'released {entry.consumer_uuid}')
        if failures:
            raise self._fail(
                f'{len(failures)} of {len(known)} servers could not be '
                f'released at {self._source.name}: {failures[0]}\n'
                f'{self._tell_state(is_released=False)}'
            )
        self._report_strangers(known)

    def _report_strangers(self, known: Iterable[assignment.Entry]) -> None:
        uuids = {one.consumer_uuid for one in known}
        applied = self._look(self._source) or frozenset()
        # What is of several servers has a name of its own.
        for one in sorted(filter(uuidutils.is_uuid_like, applied - uuids)):
            self._say(
                f'left alone {one}: it is in force at {self._source.name}, '
                'and the ledger does not know it'
            )

    # -- phase two -----------------------------------------------------

    def _apply_all(self) -> None:
        """Put everything into force at the target that is not yet."""
        ours = [e for e in self._list_ours() if e.state is not State.RELEASING]
        side = self._make_enforcement(self._target)
        there = self._find_in_force(ours)
        rest = [one for one in ours if one not in there]
        self._clear(side, rest)
        state = self._tell_state(is_released=True)
        plan = self._plan(rest, in_force=there)
        self._refuse_obstacles(plan, state)
        if plan.entries:
            self._begin(Phase.APPLYING)
        failures = [
            failure
            for entry in plan.entries
            if (failure := self._apply(side, entry))
        ]
        if failures:
            raise self._fail(
                f'{len(failures)} of {len(ours)} servers could not be put '
                f'into force at {self._target.name}: {failures[0]}\n{state}'
            )

    def _clear(
        self, side: enforcement.Enforcement, rest: Iterable[assignment.Entry]
    ) -> None:
        """Release at the target what is there and not as the ledger says.

        It was killed between the two, or goes back half-way; what is in
        force by then would count as used by others.
        """
        applied = self._look(self._target) or frozenset()
        _done, failures = side.release_all(
            one for one in rest if one.consumer_uuid in applied
        )
        if failures:
            raise self._fail(
                f'{failures[0]}\n{self._tell_state(is_released=True)}'
            )

    def _apply(
        self, side: enforcement.Enforcement, entry: assignment.Entry
    ) -> str:
        """Apply one; say why it did not work, or ''."""
        try:
            real = side.apply(entry)
        except exception.ExtResourcesError as err:
            self._say(f'failed {entry.consumer_uuid}: {err}')
            return str(err)
        applied = dataclasses.replace(
            entry, assignments=real, state=State.APPLIED
        )
        self._put(applied)
        self._say(f'applied {messages.describe(applied)}')
        self._note_wishes(applied)
        return ''

    def _note_wishes(self, entry: assignment.Entry) -> None:
        """Say what a flavor asks of the source by its name."""
        for key, value in entry.enforcers.get(self._source.name, {}).items():
            self._say(
                f'left behind {entry.consumer_uuid}: its flavor asks for '
                f'resource:{self._source.name}:{key}={value}, which means '
                f'nothing to {self._target.name}'
            )

    def _find_in_force(
        self, ours: Iterable[assignment.Entry]
    ) -> list[assignment.Entry]:
        applied = self._look(self._target)
        return [
            entry
            for entry in ours
            if entry.state is State.APPLIED
            and applied is not None
            and entry.consumer_uuid in applied
            and self._target.enforcer.is_in_force(entry)
        ]

    def _look(self, backend: Backend) -> frozenset[str] | None:
        try:
            return backend.enforcer.list_applied()
        except exception.ExtResourcesError as err:
            is_released = backend is self._target
            raise self._fail(
                f'{err}\n{self._tell_state(is_released=is_released)}'
            ) from err

    # -- deciding ------------------------------------------------------

    def _plan(
        self,
        entries: Collection[assignment.Entry],
        *,
        in_force: Collection[assignment.Entry] = (),
        is_before: bool = False,
        is_held: bool = False,
    ) -> plan_mod.Plan:
        """Plan.

        :param is_before: nothing was changed yet
        :param is_held: what they hold is in force at the source
        """
        target = self._target
        try:
            found = target.inventory.discover()
        except exception.ExtResourcesError as err:
            state = (
                f'{messages.UNCHANGED} If {target.name} cannot run beside '
                f'{self._source.name}, run it with --unchecked.'
                if is_before
                else self._tell_state(is_released=True)
            )
            raise self._fail(f'{err}\n{state}') from err
        return plan_mod.make_plan(
            [one for one in entries if one.state is not State.RELEASING],
            plan_mod.Target(
                name=target.name,
                found=found,
                constraints=constraints.Constraints(
                    classes=constraints.unite(
                        one.constraints
                        for one in (target.inventory, target.enforcer)
                    )
                ),
            ),
            classes=self._source.enforcer.RESOURCE_CLASSES,
            trackers=self._trackers,
            tests=self._tests,
            in_force=in_force,
            is_before=is_held,
        )

    def _refuse_obstacles(self, plan: plan_mod.Plan, state: str) -> None:
        if plan.obstacles:
            reasons = '\n  '.join(plan.obstacles)
            raise self._fail(
                f'{self._target.name} cannot hold what servers of this host '
                f'hold:\n  {reasons}\n{state}'
            )

    def _make_enforcement(self, one: Backend) -> enforcement.Enforcement:
        return enforcement.Enforcement(
            self._host, {one.name: one.enforcer}, self._trackers
        )

    def _fail(self, reason: str) -> errors.HandOverFailed:
        return errors.HandOverFailed(host=self._host, reason=reason)

    def _tell_state(self, *, is_released: bool) -> str:
        return messages.tell_state(
            self._source.name, self._target.name, is_released=is_released
        )
