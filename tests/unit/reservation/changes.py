# SPDX-License-Identifier: Apache-2.0

"""Makes planned changes of capacity for tests."""

from collections.abc import Mapping
from typing import Any

from nova_ext_resources.reservation import capacity_change
from nova_ext_resources.reservation import interval


def make_maintenance(
    key: str, during: interval.Interval, host: str = 'a', **fields: Any
) -> capacity_change.CapacityChange:
    return capacity_change.CapacityChange(
        key=key, during=during, host=host, **fields
    )


def make_change(
    key: str,
    during: interval.Interval,
    amounts: Mapping[str, int],
    host: str = 'a',
    before: int = 8,
    **fields: Any,
) -> capacity_change.CapacityChange:
    """Make one of the host's own provider, of eight units."""
    return capacity_change.CapacityChange(
        key=key,
        during=during,
        host=host,
        **{
            'rp_uuid': host,
            'provider': host,
            'amounts': amounts,
            'before': dict.fromkeys(amounts, before),
            **fields,
        },
    )
