# SPDX-License-Identifier: Apache-2.0

"""Deletes the leftovers that the audit has found."""

from collections.abc import Iterable, Mapping, Sequence
import dataclasses

from nova_ext_resources.cmd.osc import audit_journal
from nova_ext_resources import exception
from nova_ext_resources.inspection.audit import finding
from nova_ext_resources.placement import allocations
from nova_ext_resources.placement import client as placement_client
from nova_ext_resources.placement import responses

State = audit_journal.State

_DONE = 'deleted'


class Repair:
    """Changes what placement has allocated to one consumer after the other.

    Each by one write with the generation of the reading: what has changed
    since is left as it is.
    """

    def __init__(
        self,
        placement: placement_client.Client,
        journal: audit_journal.Journal,
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
        leftovers: dict[str, list[finding.Finding]] = {}
        for one in found:
            if one.remedy is finding.Remedy.REPAIR:
                leftovers.setdefault(one.consumer, []).append(one)
        done = {
            one.subject: one
            for consumer, some in leftovers.items()
            for one in self._take_away(fresh[consumer], some)
        }
        return [done.get(one.subject, one) for one in found]

    def _take_away(
        self,
        held: responses.Allocations,
        leftovers: Sequence[finding.Finding],
    ) -> list[finding.Finding]:
        places = {(one.rp_uuid, one.resource_class) for one in leftovers}
        self._write(State.BEGUN, held, leftovers)
        try:
            allocations.take_away(self._placement, held, places)
        except exception.PlacementError as err:
            self._write(State.FAILED, held, leftovers, reason=str(err))
            verdict = finding.ask(f'not deleted: {_explain(err)}')
        else:
            self._write(State.DONE, held, leftovers)
            verdict = finding.Verdict(remedy=finding.Remedy.DONE, text=_DONE)
        return [
            dataclasses.replace(one, remedy=verdict.remedy, text=verdict.text)
            for one in leftovers
        ]

    def _write(
        self,
        state: State,
        held: responses.Allocations,
        leftovers: Iterable[finding.Finding],
        **fields: str,
    ) -> None:
        for one in leftovers:
            self._journal.write(
                state,
                kind=one.kind.value,
                consumer=one.consumer,
                consumer_generation=held.generation,
                server=one.server,
                project=held.project_id,
                user=held.user_id,
                host=one.host,
                provider=one.rp_uuid,
                resource_class=one.resource_class,
                before=held.resources[one.rp_uuid][one.resource_class],
                after=0,
                **fields,
            )


def _explain(err: exception.PlacementError) -> str:
    if isinstance(err, exception.ConcurrentUpdate):
        return 'its allocations have changed meanwhile; audit again'
    return str(err)
