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

from nova_ext_resources.host import audit_allocations
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import role
from nova_ext_resources.objects import view as view_obj

Role = role.Role

_Amounts = Mapping[view_obj.Place, int]


def find_role(
    kept: assignment.Entry,
    own: assignment.Entry | None,
    request: assignment.ClaimRequest,
    *,
    of_server: view_obj.Amounts,
    of_migration: view_obj.Amounts,
    spreads: bool,
) -> Role:
    """Return ``RETURNED``, ``LEFT`` or ``IN_DOUBT``.

    :param own: what the server holds itself; None: nothing
    :param request: what Nova says of the server now
    :param of_server: what placement has allocated to the server here
    :param of_migration: the same of the migration, which had all of ``kept``
    :param spreads: whether this host gives a pinned server its amount in each
        of several cache domains
    """
    given = audit_allocations.count_given(of_server)
    is_unused = own is not None and own.purpose is assignment.Purpose.INCOMING
    if of_migration and (is_unused or not given):
        # Its process was killed before it gave that back, if Nova still says
        # what the server had.
        if _is_requested(kept, request, spreads=spreads):
            return Role.RETURNED
    is_own = given == _count(own)
    is_kept = given == _count(kept) and not of_migration
    if is_own and is_kept:
        is_own = own is None or not _is_nearer(kept, own, request)
    if is_own:
        return Role.LEFT
    return Role.RETURNED if is_kept else Role.IN_DOUBT


def _count(entry: assignment.Entry | None) -> _Amounts:
    return audit_allocations.count_held(entry) if entry else {}


def _is_requested(
    kept: assignment.Entry, request: assignment.ClaimRequest, *, spreads: bool
) -> bool:
    amounts: dict[str, list[int]] = {}
    for (_, resource_class), amount in _count(kept).items():
        amounts.setdefault(resource_class, []).append(amount)
    needs = request.requirement
    # Another flavor may request the sum, or the amount of one domain.
    is_same = kept.flavor is not None and kept.flavor == request.flavor
    may_be_each = is_same or (spreads and kept.flavor is None)
    return all(
        (may_be_each and needs.is_met_by_each(name, given))
        or (
            needs.resources.get(name) == sum(given)
            # What one group requests is on one provider, or is spread.
            and not (
                spreads and len(given) > 1 and needs.is_in_one_group(name)
            )
        )
        for name, given in amounts.items()
    )


def _is_nearer(
    kept: assignment.Entry,
    own: assignment.Entry,
    request: assignment.ClaimRequest,
) -> bool:
    """Return whether of two with equal amounts only the first is right."""
    right = request.cpus, request.requirement.enforcers, request.flavor
    fits, other = (
        (one.cpus, one.enforcers, one.flavor) == right for one in (kept, own)
    )
    return fits and not other
