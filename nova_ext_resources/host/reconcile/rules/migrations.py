# SPDX-License-Identifier: Apache-2.0

"""Decides whose it is what a move has kept, of a server on this host. Pure.

Nova's record of a move does not tell whether it has failed before or after
the server had its new flavor. What placement has allocated does: with a move
that fails on the source and one that is reverted, Nova gives the former
allocations back to the server; with one that is confirmed or fails on the
destination, it deletes them (ComputeManager ``_revert_allocation``,
``_delete_allocation_after_move``).
"""

from collections.abc import Mapping

from nova_ext_resources.facts import consumer_role
from nova_ext_resources.host.reconcile.rules import allocations
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_view

Role = consumer_role.Role

_Amounts = Mapping[host_view.Place, int]


def find_role(
    source: assignment.Entry,
    own: assignment.Entry | None,
    request: assignment.ClaimRequest,
    *,
    of_server: host_view.Amounts,
    of_migration: host_view.Amounts,
    spreads: bool,
) -> Role:
    """Return ``RETURNED``, ``LEFT`` or ``IN_DOUBT``.

    :param own: what the server holds itself; None: nothing
    :param request: what Nova says of the server now
    :param of_server: what placement has allocated to the server here
    :param of_migration: the same of the migration, which had all of ``source``
    :param spreads: whether this host gives a pinned server its amount in each
        of several cache domains
    """
    allocated = allocations.count_allocated(of_server)
    is_unused = (
        own is not None and own.purpose is assignment.Purpose.MIGRATION_DEST
    )
    if of_migration and (is_unused or not allocated):
        # Its process was killed before it gave that back, if Nova still says
        # what the server had.
        if _is_requested(source, request, spreads=spreads):
            return Role.RETURNED
    is_own = allocated == _count(own)
    is_source = allocated == _count(source) and not of_migration
    if is_own and is_source:
        is_own = own is None or not _is_nearer(source, own, request)
    if is_own:
        return Role.LEFT
    return Role.RETURNED if is_source else Role.IN_DOUBT


def _count(entry: assignment.Entry | None) -> _Amounts:
    return allocations.count_assigned(entry) if entry else {}


def _is_requested(
    source: assignment.Entry,
    request: assignment.ClaimRequest,
    *,
    spreads: bool,
) -> bool:
    amounts: dict[str, list[int]] = {}
    for (_, resource_class), amount in _count(source).items():
        amounts.setdefault(resource_class, []).append(amount)
    needs = request.requirement
    # Another flavor may request the sum, or the amount of one domain.
    is_same = source.flavor is not None and source.flavor == request.flavor
    may_be_each = is_same or (spreads and source.flavor is None)
    return all(
        (may_be_each and needs.is_met_by_each(name, allocated))
        or (
            needs.resources.get(name) == sum(allocated)
            # What one group requests is on one provider, or is spread.
            and not (
                spreads and len(allocated) > 1 and needs.is_in_one_group(name)
            )
        )
        for name, allocated in amounts.items()
    )


def _is_nearer(
    source: assignment.Entry,
    own: assignment.Entry,
    request: assignment.ClaimRequest,
) -> bool:
    """Return whether of two with equal amounts only the first is right."""
    right = request.cpus, request.requirement.enforcers, request.flavor
    fits, other = (
        (one.cpus, one.enforcers, one.flavor) == right for one in (source, own)
    )
    return fits and not other
