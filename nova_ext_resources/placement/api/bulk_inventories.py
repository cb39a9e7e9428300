# SPDX-License-Identifier: Apache-2.0

"""Writes the inventories of many providers of one tree by one request.

That is ``POST /reshaper``, which moves no allocations here. Placement lets
the role ``service`` use it, and ``admin`` where its new defaults are not
enforced; it writes all of them or none.
"""

from collections.abc import Iterable, Iterator, Sequence
import dataclasses

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.publish import diff

LOG = logging.getLogger(__name__)

#: Fewer providers than this are written one by one: together, they take two
#: requests instead of one each.
LEAST = 4

#: Providers of one request, so that placement's transaction stays short.
MOST = 200

#: How far placement raises the generation of a provider in a reshape: it
#: writes inventories that are not empty twice, see placement/objects/
#: reshaper.py.
RAISED = 2


def choose(plan: diff.PublishPlan) -> frozenset[str]:
    """Return the uuids of the providers to write together; maybe none."""
    chosen = {
        step.rp_uuid
        for wave in plan.waves
        for step in wave
        if (target := step.target) is not None
        and target.inventories
        and is_last(step.changes)
    }
    return frozenset(chosen if len(chosen) >= LEAST else ())


def is_last(pending: Sequence[diff.ProviderChange]) -> bool:
    """Return whether the last of the changes is of inventories."""
    last = pending[-1]
    return isinstance(last, diff.Replace) and last.field == 'inventories'


def split(
    steps: Sequence[diff.ProviderSteps],
) -> Iterator[Sequence[diff.ProviderSteps]]:
    """Return the steps of each request."""
    for start in range(0, len(steps), MOST):
        yield steps[start : start + MOST]


class BulkWriter:
    """Writes; remembers nothing. Traits and classes have to exist."""

    def __init__(self, client: placement_client.Client) -> None:
        self._client = client

    def write(
        self, steps: Iterable[diff.ProviderSteps]
    ) -> dict[str, host_provider.Provider]:
        """Write the inventories of steps of which all else is written.

        :returns: rp_uuid -> provider as it is then; none where that is not
            known
        :raises PlacementError: nothing was written, or that is not known
        """
        before = {}
        wanted = {}
        for step in steps:
            target = step.target
            assert target is not None and step.seen is not None
            before[step.rp_uuid] = step.seen
            wanted[step.rp_uuid] = target.inventories
        self._client.reshape(
            {
                rp_uuid: (seen.generation or 0, wanted[rp_uuid])
                for rp_uuid, seen in before.items()
            }
        )
        if not self._is_raised(before):
            return {}
        return {
            rp_uuid: dataclasses.replace(
                seen,
                generation=(seen.generation or 0) + RAISED,
                inventories=wanted[rp_uuid],
            )
            for rp_uuid, seen in before.items()
        }

    def _is_raised(self, before: dict[str, host_provider.Provider]) -> bool:
        """Return whether the reshape has raised generations as expected.

        Its answer has none, and another release of placement may raise them
        otherwise. Those to which other software has written since are higher.
        """
        try:
            listed = self._client.list_providers(in_tree=min(before))
        except exception.PlacementError as err:
            LOG.debug('Placement: generations are read later: %s', err)
            return False
        raised = [
            (one.generation or 0) - (before[one.rp_uuid].generation or 0)
            for one in listed
            if one.rp_uuid in before
        ]
        return min(raised, default=0) == RAISED
