# SPDX-License-Identifier: Apache-2.0

"""Repairs what the audit has found.

It deletes leftovers, and allocates what servers lack.
"""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses

from nova_ext_resources.cmd.osc.audit import journal as journal_mod
from nova_ext_resources import exception
from nova_ext_resources.inspection.audit import finding
from nova_ext_resources.placement import allocations
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.api import responses

State = journal_mod.ChangeState


class AllocationRepair:
    """Changes what placement has allocated to one consumer after the other.

    Each by one write with the generation of the reading: what has changed
    since is left as it is. If placement refuses the write for an amount, each
    resource is written by itself.
    """

    def __init__(
        self,
        placement: placement_client.Client,
        journal: journal_mod.AuditJournal,
    ) -> None:
        self._placement = placement
        self._journal = journal

    def run(
        self,
        found: Iterable[finding.Finding],
        fresh: Mapping[str, responses.Allocations],
    ) -> list[finding.Finding]:
        """Repair what can be; return all, with what was done.

        :param fresh: consumer -> all that it has, as it was compared
        :raises CommandError: the journal cannot be written
        """
        found = list(found)
        pending: dict[str, list[finding.Finding]] = {}
        for one in found:
            if one.remedy is finding.Remedy.REPAIR:
                pending.setdefault(one.consumer, []).append(one)
        done = {
            one.subject: one
            for consumer, some in pending.items()
            for one in self._change(fresh[consumer], some)
        }
        return [done.get(one.subject, one) for one in found]

    def _change(
        self,
        current: responses.Allocations,
        wrong: Sequence[finding.Finding],
    ) -> list[finding.Finding]:
        written = self._try(current, wrong)
        if len(wrong) > 1 and isinstance(
            written, exception.AllocationRejected
        ):
            return self._change_each(current, wrong)
        return [_settle(one, written) for one in wrong]

    def _change_each(
        self,
        current: responses.Allocations,
        wrong: Sequence[finding.Finding],
    ) -> list[finding.Finding]:
        """Change one resource after the other: some may have room."""
        found = []
        for one in wrong:
            written = self._try(current, [one])
            found.append(_settle(one, written))
            if isinstance(written, responses.Allocations):
                current = self._read_again(written)
        return found

    def _read_again(
        self, written: responses.Allocations
    ) -> responses.Allocations:
        """Return what was written with its new generation.

        With the old one, which placement refuses, if others have changed it
        since, or it cannot be read.
        """
        try:
            now = self._placement.get_allocations(written.consumer_uuid)
        except exception.PlacementError:
            return written
        return now if now.resources == written.resources else written

    def _try(
        self,
        current: responses.Allocations,
        wrong: Sequence[finding.Finding],
    ) -> responses.Allocations | exception.PlacementError:
        """Change some in one write; return what it wrote, or why it did not.

        :raises CommandError: the journal cannot be written
        """
        amounts = {
            (one.rp_uuid, one.resource_class): one.correction for one in wrong
        }
        self._write(State.BEGUN, current, wrong)
        try:
            written = allocations.add(self._placement, current, amounts)
        except exception.PlacementError as err:
            self._write(State.FAILED, current, wrong, reason=str(err))
            return err
        self._write(State.DONE, current, wrong)
        return written

    def _write(
        self,
        state: State,
        current: responses.Allocations,
        wrong: Iterable[finding.Finding],
        **fields: str,
    ) -> None:
        for one in wrong:
            given = current.resources.get(one.rp_uuid, {})
            before = given.get(one.resource_class, 0)
            self._journal.write(
                state,
                kind=one.kind.value,
                consumer=one.consumer,
                consumer_generation=current.generation,
                server=one.server,
                project=current.project_id,
                user=current.user_id,
                host=one.host,
                provider=one.rp_uuid,
                resource_class=one.resource_class,
                before=before,
                after=before + one.correction,
                **fields,
            )


def _describe(one: finding.Finding) -> str:
    return 'allocated' if one.correction > 0 else 'deleted'


def _settle(
    one: finding.Finding,
    written: responses.Allocations | exception.PlacementError,
) -> finding.Finding:
    if isinstance(written, exception.PlacementError):
        return _leave(one, written)
    return dataclasses.replace(
        one, remedy=finding.Remedy.DONE, text=_describe(one)
    )


def _leave(
    one: finding.Finding, err: exception.PlacementError
) -> finding.Finding:
    """Leave to the operator what placement has refused."""
    if isinstance(err, exception.ConcurrentUpdate):
        reason = 'the allocations have changed meanwhile; audit again'
    else:
        reason = str(err)
    return dataclasses.replace(
        one,
        remedy=finding.Remedy.OPERATOR,
        text=f'not {_describe(one)}: {reason}',
    )
