# SPDX-License-Identifier: Apache-2.0

"""Carries a hand-over out; it can be killed at any line and run again.

The desired state is that all servers are applied at the target and none at the
source. Everything is released at the source before anything is applied at the
target, because both allocate the same classes of service of the same CPUs.
In between, servers keep running without the resources allocated to them.

The ledger has the state of each server: ``CLAIMED`` is applied nowhere, as far
as is known, and ``APPLIED`` at the backend that the journal's phase implies.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
import dataclasses
import functools

from oslo_utils import uuidutils

from nova_ext_resources.claims import base
from nova_ext_resources.drivers import base as drivers_base
from nova_ext_resources import exception
from nova_ext_resources.host.claims import enforcement
from nova_ext_resources.host.handover import errors
from nova_ext_resources.host.handover import journal
from nova_ext_resources.host.handover import plan as plan_mod
from nova_ext_resources.host.ledger import ledger as ledger_mod
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_provider

Phase = journal.Phase
State = assignment.State
Entry = assignment.Entry

_KEPT = (State.CLAIMED, State.APPLIED)

#: The option of the command with which nothing is released at the source.
SOURCE_IS_GONE = '--source-is-gone'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """The two plugins of one name.

    Those of the target read the ledger's entries. Those of the source read
    none: no server stays there for which they had to keep a pool.
    """

    name: str
    inventory: drivers_base.InventoryProvider
    enforcer: drivers_base.Enforcer

    def make_enforcement(self, host: str) -> enforcement.Enforcement:
        return enforcement.Enforcement(host, {self.name: self.enforcer})

    def release(self, host: str, entry: Entry) -> None:
        """Release what it serves; other enforcers keep what they serve."""
        serves = self.enforcer.serves
        own = [a for a in entry.assignments if serves(a.resource_class)]
        self.make_enforcement(host).release(
            dataclasses.replace(entry, assignments=tuple(own))
        )


@dataclasses.dataclass(kw_only=True)
class HandOver:
    """Moves all servers of the ledger from one backend to another.

    :ivar ledger: open, so that nova-compute cannot run
    :ivar is_source_gone: nothing is applied at the source any longer, and it
        does not answer
    :ivar say: gets a line for each step
    """

    host: str
    source: Backend
    target: Backend
    ledger: ledger_mod.Ledger
    trackers: Mapping[str, base.Tracker]
    tests: Sequence[base.ClaimTest]
    is_source_gone: bool = False
    say: Callable[[str], object] = print

    def __post_init__(self) -> None:
        self.journal = journal.HandoverJournal(self.ledger.path)
        self.entries = self.ledger.list_entries()
        self._phase = Phase.RELEASING
        # Nothing was changed yet.
        self._is_new = True

    def check(self) -> None:
        """Make sure, as far as is known now, that the hand-over is possible.

        Changes nothing. What is applied at the source counts as free.

        :raises HandOverFailed: it is impossible
        """
        self._resume()
        self._check(is_checked=True)

    def run(self, *, is_checked: bool = True) -> None:
        """Hand over, or continue, or go back.

        :param is_checked: whether to check first that the target can hold
            everything
        :raises HandOverFailed: it has stopped; contains the state and what
            to do
        :raises LedgerError: ledger or journal cannot be written
        """
        self._resume()
        if self._phase is Phase.RELEASING:
            self._check(is_checked=is_checked)
            if is_checked:
                self._check_target()
        self._begin(self._phase)
        if self._phase is Phase.RELEASING:
            self._release_all()
            self._begin(Phase.RELEASED)
        self._apply_all()
        # nova-compute must not start with the source before it has started
        # with the target.
        self._begin(Phase.DONE)

    # -- progress ------------------------------------------------------

    def _resume(self) -> None:
        """Find the phase in which to continue.

        :raises HandOverFailed: another hand-over has not ended
        """
        found = self.journal.read()
        if found is None:
            return
        phase = found.find_next(self.source.name, self.target.name)
        if phase is None:
            raise self._fail(
                f'a hand-over from {found.source} to {found.target} is not '
                'complete; complete the hand-over, or go back, before you '
                'begin another hand-over.'
            )
        is_back = found.source != self.source.name
        self._phase = phase
        self._is_new = is_back and found.phase is journal.Phase.DONE
        names = f'from {self.source.name} to {self.target.name}'
        if not is_back:
            self.say(f'continuing the hand-over {names}, in phase {phase}')
        elif not self._is_new:
            self.say(f'going back {names}')

    def _begin(self, phase: Phase) -> None:
        source, target = self.source.name, self.target.name
        self.journal.write(
            journal.Progress(source=source, target=target, phase=phase)
        )
        self._phase, self._is_new = phase, False

    def _fail(self, reason: object) -> errors.HandOverFailed:
        """Return an error with the state and the ways out of it."""
        state = 'Nothing was changed.' if self._is_new else self._explain()
        return errors.HandOverFailed(
            host=self.host, reason=f'{reason}\n{state}'
        )

    def _explain(self) -> str:
        source, target = self.source.name, self.target.name
        state = f'still applied at {source}.'
        if self._phase is not Phase.RELEASING:
            state = (
                f'applied at {target}, and nothing is applied at {source}. If '
                f'{source} still has classes of service in the kernel, stop '
                f'{source} and remove its groups.'
            )
        return (
            'All servers keep running. The servers that the ledger lists as '
            f'applied are {state} To continue, run the same command again. To '
            f'go back, run the command with --from {target} --to {source}, '
            f'which first releases the settings at {target}. If the backend '
            f'that servers leave is gone for good, add {SOURCE_IS_GONE}. '
            'nova-compute does not start until one of the two commands has '
            'completed.'
        )

    # -- entries -------------------------------------------------------

    def _list_ours(
        self, states: Collection[State] = tuple(State)
    ) -> list[Entry]:
        """Return the entries in these states that are handed over."""
        serves = self.source.enforcer.serves
        return [
            entry
            for _uuid, entry in sorted(self.entries.items())
            if entry.state in states
            and any(serves(one.resource_class) for one in entry.assignments)
        ]

    def _put(self, entry: Entry) -> None:
        self.ledger.put(entry)
        self.entries = {**self.entries, entry.consumer_uuid: entry}

    def _for_each(
        self, entries: Sequence[Entry], act: Callable[[Entry], None], what: str
    ) -> None:
        """Carry a step out for all servers; stop only after the last one.

        :raises HandOverFailed: it failed for some servers
        :raises LedgerError: it could not be recorded
        """
        failures: list[exception.ExtResourcesError] = []
        for entry in entries:
            try:
                act(entry)
            except exception.LedgerError:
                raise
            except exception.ExtResourcesError as err:
                self.say(f'failed {entry.consumer_uuid}: {err}')
                failures.append(err)
        if failures:
            raise self._fail(
                f'{len(failures)} of {len(entries)} servers could not be '
                f'{what}: {failures[0]}'
            )

    def _list_applied(self, backend: Backend, hint: str = '') -> set[str]:
        """Return the consumers of which a backend has settings.

        :param hint: what to do where it does not answer
        """
        try:
            return set(backend.enforcer.list_applied() or ())
        except exception.ExtResourcesError as err:
            raise self._fail(f'{err}{hint}') from err

    # -- checking ------------------------------------------------------

    def _check(self, *, is_checked: bool) -> None:
        if self._phase is Phase.RELEASING:
            self._check_moves()
            self._check_source()
        if is_checked:
            for entry in self._plan(is_applied=not self.is_source_gone):
                self._report('would apply', entry)
            if remains := self._find_remains():
                self.say(
                    'The hand-over takes two runs. The first run stops as '
                    f'soon as {self.source.name} has released all servers, '
                    f'because {remains}'
                )

    def _check_moves(self) -> None:
        """Make sure that no server is on its way.

        :raises HandOverFailed: one is
        """
        moves = {
            one.server_uuid
            for one in self._list_ours()
            if one.purpose is not assignment.Purpose.OWN
        }
        if moves:
            raise self._fail(
                f'these servers are being moved: {", ".join(sorted(moves))}. '
                f'Start nova-compute with {self.source.name}, confirm or '
                'revert their resizes and migrations, and run the command '
                'again.'
            )

    def _check_source(self) -> None:
        """Make sure that the source answers, or that it is gone.

        :raises HandOverFailed: it is the other way round, or the source has
            no settings of any server that the ledger lists
        """
        name = self.source.name
        hint = (
            f' The settings of {name} must be released first: repair or start '
            f'{name}. If {name} is gone for good, and has no settings left in '
            f'the kernel, add {SOURCE_IS_GONE}.'
        )
        try:
            applied = self._list_applied(self.source, hint)
        except errors.HandOverFailed:
            if self.is_source_gone:
                return
            raise
        there = applied & {one.consumer_uuid for one in self._list_ours()}
        settled = self._list_ours([State.APPLIED])
        if self.is_source_gone and there:
            raise self._fail(
                f'{name} answers, and has settings for {len(there)} servers. '
                f'Run the command without {SOURCE_IS_GONE}.'
            )
        if self._is_new and settled and not (there or self.is_source_gone):
            raise self._fail(
                f'the ledger lists {len(settled)} servers as applied, but '
                f'{name} has no settings for any of these servers. If this '
                f'host runs with {self.target.name}, exchange --from and '
                f'--to. If {name} has lost the settings, start nova-compute '
                f'with {name} once, or add {SOURCE_IS_GONE}.'
            )

    def _check_target(self) -> None:
        """Make sure that the target can apply anything.

        It may change the host for a moment: a dry run leaves it out.

        :raises HandOverFailed: it cannot
        """
        wanted = {
            a.resource_class
            for entry in self._list_ours(_KEPT)
            for a in entry.assignments
        }
        try:
            self.target.make_enforcement(self.host).check_ready(wanted)
        except exception.ExtResourcesError as err:
            raise self._fail(err) from err

    # -- steps ---------------------------------------------------------

    def _release_all(self) -> None:
        """Release everything of ours at the source; report what is left."""
        name, ours = self.source.name, self._list_ours()
        self._for_each(ours, self._release, f'released at {name}')
        if self.is_source_gone:
            return
        left = self._list_applied(self.source)
        left -= {one.consumer_uuid for one in ours}
        # Settings of several servers together have names of their own.
        for one in sorted(filter(uuidutils.is_uuid_like, left)):
            self.say(
                f'left alone {one}: {name} has settings for this server, but '
                'the ledger has no entry for the server'
            )

    def _release(self, entry: Entry) -> None:
        if not self.is_source_gone:
            self.source.release(self.host, entry)
        if entry.state is not State.RELEASING:
            self._put(dataclasses.replace(entry, state=State.CLAIMED))
        verb = 'written off' if self.is_source_gone else 'released'
        self.say(f'{verb} {entry.consumer_uuid}')

    def _apply_all(self) -> None:
        """Apply at the target everything that is not applied there yet.

        What a killed command has left there is released first, because it
        would count as used by other software.
        """
        name, enforcer = self.target.name, self.target.enforcer
        applied = self._list_applied(self.target)
        there = [
            e for e in self._list_ours(_KEPT) if e.consumer_uuid in applied
        ]
        right = [
            one
            for one in there
            if one.state is State.APPLIED and enforcer.is_applied(one)
        ]
        self._for_each(
            [one for one in there if one not in right],
            functools.partial(self.target.release, self.host),
            f'released at {name}',
        )
        entries = self._plan(right)
        if entries:
            self._begin(Phase.APPLYING)
        self._for_each(entries, self._apply, f'applied at {name}')

    def _apply(self, entry: Entry) -> None:
        real = self.target.make_enforcement(self.host).apply(entry)
        entry = dataclasses.replace(
            entry, assignments=real, state=State.APPLIED
        )
        self._put(entry)
        self._report('applied', entry)

    def _report(self, verb: str, entry: Entry) -> None:
        """Report what a server gets, and what only the source can apply."""
        uuid, name = entry.consumer_uuid, self.source.name
        text = ', '.join(
            f'{one.amount} {one.resource_class} of {one.rp_key}'
            + (f' {dict(one.units)}' if one.units else '')
            for one in entry.assignments
        )
        self.say(f'{verb} {uuid}: {text}')
        for key, value in entry.enforcers.get(name, {}).items():
            self.say(
                f'left behind {uuid}: its flavor has resource:{name}:{key}='
                f'{value}, which has no effect with {self.target.name}'
            )

    # -- planning ------------------------------------------------------

    def _plan(
        self, right: Collection[Entry] = (), *, is_applied: bool = False
    ) -> tuple[Entry, ...]:
        """Return the entries to apply, with their units at the target.

        :param right: what is applied at the target already
        :param is_applied: what the others hold is applied at the source
        :raises HandOverFailed: the target cannot hold everything
        """
        plan = self._discover().make_plan(
            [one for one in self._list_ours(_KEPT) if one not in right],
            applied=right,
            is_before=is_applied,
        )
        if plan.obstacles:
            reasons = '\n  '.join(plan.obstacles)
            raise self._fail(
                f'{self.target.name} has too few resources for the servers of '
                'this host:\n'
                f'  {reasons}'
            )
        return plan.entries

    def _find_remains(self) -> str:
        return self.target.inventory.find_remains(self.source.name)

    def _read_target(self) -> tuple[host_provider.HostProvider, ...]:
        """Return what the target has as soon as the source is gone.

        :raises HandOverFailed: the source applies nothing, and the operator
            has to remove what it keeps all the same
        """
        if self._phase is Phase.RELEASING and not self.is_source_gone:
            return self.target.inventory.discover_without(self.source.name)
        if remains := self._find_remains():
            raise self._fail(remains)
        return self.target.inventory.discover()

    def _discover(self) -> plan_mod.HandoverTarget:
        name, inventory = self.target.name, self.target.inventory
        hint = (
            f' Nothing more was released. Repair or start {name}; if {name} '
            f'cannot run beside {self.source.name}, add --unchecked.'
        )
        try:
            found = self._read_target()
        except errors.HandOverFailed:
            raise
        except exception.ExtResourcesError as err:
            is_before = self._phase is Phase.RELEASING
            raise self._fail(f'{err}{hint if is_before else ""}') from err
        never = [inventory.constraints, self.target.enforcer.constraints]
        return plan_mod.HandoverTarget(
            name=name,
            found=found,
            constraints=host_constraints.Constraints(
                classes=host_constraints.unite(never)
            ),
            serves=self.source.enforcer.serves,
            trackers=self.trackers,
            tests=self.tests,
        )
