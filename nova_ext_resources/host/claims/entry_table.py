# SPDX-License-Identifier: Apache-2.0

"""The life of an entry, as one table. Pure.

An entry has a state and a purpose. An event leads it to others by actions, in
order; a process may be killed between any two of them. What an event is not
in the table for is refused. :class:`.ClaimManager` decides which event comes,
:mod:`.transitions` acts, and ``tests.explore`` walks the table with all that
may go wrong.
"""

from collections.abc import Mapping
import dataclasses
import enum
from typing import Any, TypeAlias

from nova_ext_resources import exception
from nova_ext_resources.objects import assignment

State = assignment.State
Purpose = assignment.Purpose


class EntryEvent(enum.StrEnum):
    """What happens to an entry.

    ``CLAIM``: a server that is built or started claims.
    ``CLAIM_MOVE``: a server that is on its way here claims.
    ``RECLAIM``: a server claims anew while its guest runs.
    ``RECOGNIZE``: the entry was lost, and the host shows what is applied.
    ``PREPARE``: it is applied before its guest comes, or once more.
    ``APPLY``: it is applied for a guest that is here.
    ``PARK``: the guest is off for a move. The entry is the migration's now.
    ``EXCHANGE``: the guest is off for a move on its host. What the migration
    has claimed is the server's now.
    ``UNPARK``: the move is undone. The entry is the server's again.
    ``RELEASE``: nothing of it is needed any more.
    ``FINISH``: what is being released is removed.
    ``KEEP``: a former process was releasing it, and its guest runs.
    """

    CLAIM = 'claim'
    CLAIM_MOVE = 'claim for a move'
    RECLAIM = 'claim again'
    RECOGNIZE = 'recognize'
    PREPARE = 'prepare'
    APPLY = 'apply'
    PARK = 'park'
    EXCHANGE = 'exchange'
    UNPARK = 'unpark'
    RELEASE = 'release'
    FINISH = 'finish'
    KEEP = 'keep'


class EntryAction(enum.StrEnum):
    """A part of a step that is done whole or not at all.

    ``TAKE``: memory counts units that are free as the consumer's.
    ``REMEMBER``: memory has the entry as it is after the step.
    ``FORGET``: memory has it no more; its units are free.
    ``WRITE``: the ledger has the entry as it is after the step.
    ``DELETE``: the ledger has it no more.
    ``ENFORCE``: the enforcers apply it.
    ``REMOVE``: the enforcers remove its settings.
    ``TRY_TO_REMOVE``: likewise; what stays is left over, and repaired.
    """

    TAKE = 'take units'
    REMEMBER = 'remember'
    FORGET = 'forget'
    WRITE = 'write'
    DELETE = 'delete'
    ENFORCE = 'apply'
    REMOVE = 'remove settings'
    TRY_TO_REMOVE = 'try to remove settings'


@dataclasses.dataclass(frozen=True, slots=True)
class EntryStep:
    """What an event does to an entry.

    :ivar state: after it; None: there is no entry any more
    :ivar purpose: likewise
    :ivar actions: in order; one that fails ends the step
    :ivar compensation: what is done when one after the first fails
    """

    state: State | None
    purpose: Purpose | None
    actions: tuple[EntryAction, ...]
    compensation: tuple[EntryAction, ...] = ()


#: State and purpose before an event, None where there is no entry.
EntryKey: TypeAlias = tuple[State | None, Purpose | None, EntryEvent]

#: States of an entry that is not being released.
_HELD = (State.CLAIMED, State.APPLIED, State.PARKED)

# Memory counts the units first, so that no other claim gets them.
_CLAIM = (EntryAction.TAKE, EntryAction.WRITE)

# Nothing is in memory that the ledger does not have.
_RECORD = (EntryAction.WRITE, EntryAction.REMEMBER)

_APPLY = (EntryAction.ENFORCE, *_RECORD)

# Settings have the uuid of their consumer, which changes.
_RENAME = (EntryAction.TRY_TO_REMOVE, *_RECORD)

# Marked in memory first: where the ledger refuses, repair releases it.
_RELEASE = (EntryAction.REMEMBER, EntryAction.WRITE)

# Units are free when nothing has them any more, not even the ledger.
_FINISH = (EntryAction.REMOVE, EntryAction.DELETE, EntryAction.FORGET)


def _list_applying(
    state: State, purpose: Purpose
) -> dict[EntryKey, EntryStep]:
    targets = {EntryEvent.PREPARE: purpose}
    if purpose is not Purpose.MIGRATION_SOURCE:
        targets[EntryEvent.APPLY] = Purpose.OWN
    return {
        (state, purpose, event): EntryStep(
            State.APPLIED,
            target,
            # Nothing else changes when it is applied once more.
            (EntryAction.ENFORCE,)
            if (state, purpose) == (State.APPLIED, target)
            else _APPLY,
        )
        for event, target in targets.items()
    }


def _list_moving(state: State, purpose: Purpose) -> dict[EntryKey, EntryStep]:
    # Of what is parked, nothing is applied.
    actions = _RECORD if state is State.PARKED else _RENAME
    steps = {
        EntryEvent.PARK: EntryStep(
            State.PARKED, Purpose.MIGRATION_SOURCE, actions
        ),
        EntryEvent.EXCHANGE: EntryStep(
            State.PARKED, Purpose.MIGRATION_DEST, actions
        ),
        EntryEvent.UNPARK: EntryStep(State.CLAIMED, Purpose.OWN, actions),
    }
    possible = {
        Purpose.OWN: (EntryEvent.PARK,),
        Purpose.MIGRATION_DEST: (EntryEvent.PARK, EntryEvent.EXCHANGE),
        Purpose.MIGRATION_SOURCE: (EntryEvent.UNPARK,),
    }
    return {(state, purpose, one): steps[one] for one in possible[purpose]}


#: All that may happen to an entry.
ENTRY_TABLE: Mapping[EntryKey, EntryStep] = {
    (None, None, EntryEvent.CLAIM): EntryStep(
        State.CLAIMED, Purpose.OWN, _CLAIM, (EntryAction.FORGET,)
    ),
    (None, None, EntryEvent.CLAIM_MOVE): EntryStep(
        State.PARKED, Purpose.MIGRATION_DEST, _CLAIM, (EntryAction.FORGET,)
    ),
    (None, None, EntryEvent.RECOGNIZE): EntryStep(
        State.APPLIED, Purpose.OWN, _RECORD
    ),
    **{
        key: step
        for state in _HELD
        for purpose in Purpose
        for key, step in {
            **_list_applying(state, purpose),
            **_list_moving(state, purpose),
            (state, purpose, EntryEvent.RECLAIM): EntryStep(
                # What the guest has is removed while it can come back.
                *(State.CLAIMED, Purpose.OWN),
                (EntryAction.REMOVE, *_CLAIM),
            ),
        }.items()
    },
    **{
        (state, purpose, EntryEvent.RELEASE): EntryStep(
            State.RELEASING, purpose, _RELEASE
        )
        for state in State
        for purpose in Purpose
    },
    **{
        (State.RELEASING, purpose, event): step
        for purpose in Purpose
        for event, step in {
            EntryEvent.FINISH: EntryStep(None, None, _FINISH),
            # The audit has the ledger follow.
            EntryEvent.KEEP: EntryStep(
                State.CLAIMED, purpose, (EntryAction.REMEMBER,)
            ),
        }.items()
    },
}


def find_step(entry: assignment.Entry | None, event: EntryEvent) -> EntryStep:
    """Return what an event does to an entry.

    :param entry: None where the consumer holds nothing
    :raises EntryStepRefused: that must not happen to it
    """
    state, purpose = (entry.state, entry.purpose) if entry else (None, None)
    step = ENTRY_TABLE.get((state, purpose, event))
    if step is None:
        raise exception.EntryStepRefused(
            consumer_uuid=entry.consumer_uuid if entry else '',
            state=state or 'absent',
            purpose=purpose or 'none',
            event=event,
        )
    return step


def advance(
    entry: assignment.Entry, event: EntryEvent, **changes: Any
) -> assignment.Entry:
    """Return an entry as it is after an event that does not end it.

    :param changes: fields that change with it
    :raises EntryStepRefused: that must not happen to it
    """
    step = find_step(entry, event)
    assert step.state is not None
    assert step.purpose is not None
    return dataclasses.replace(
        entry, state=step.state, purpose=step.purpose, **changes
    )
