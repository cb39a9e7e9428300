# SPDX-License-Identifier: Apache-2.0

"""Why a host refuses cache or memory bandwidth after all."""

from collections.abc import Iterable

from nova_ext_resources import exception
from nova_ext_resources.objects import assignment


def make_busy(
    host: str,
    consumer_uuid: str,
    assignments: Iterable[assignment.Assignment],
    reason: str,
) -> exception.CapacityExceeded:
    """Return the error of a host that has no room for these after all.

    Other software came first; another host may have some.
    """
    return exception.CapacityExceeded(
        host=host,
        consumer_uuid=consumer_uuid,
        shortfalls=_make_shortfalls(assignments, reason, is_permanent=False),
    )


def make_violated(
    host: str,
    consumer_uuid: str,
    assignments: Iterable[assignment.Assignment],
    reason: str,
) -> exception.ConstraintsViolated:
    """Return the error of a host that can never do what the flavor says."""
    return exception.ConstraintsViolated(
        host=host,
        consumer_uuid=consumer_uuid,
        shortfalls=_make_shortfalls(assignments, reason, is_permanent=True),
    )


def _make_shortfalls(
    assignments: Iterable[assignment.Assignment],
    reason: str,
    *,
    is_permanent: bool,
) -> list[exception.Shortfall]:
    return [
        exception.Shortfall(
            rp_uuid=one.rp_uuid,
            resource_class=one.resource_class,
            requested=one.amount,
            reason=reason,
            is_permanent=is_permanent,
            rp_key=one.rp_key,
        )
        for one in assignments
    ]
