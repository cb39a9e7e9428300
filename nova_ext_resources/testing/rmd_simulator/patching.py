# SPDX-License-Identifier: Apache-2.0

"""How PATCH merges a body into a record. Pure.

A policy wins over everything else in the body, also when it is the one
that the record has; without a policy the values are taken one by one.
"""

import contextlib

from nova_ext_resources.testing.rmd_simulator import allocation
from nova_ext_resources.testing.rmd_simulator import gojson
from nova_ext_resources.testing.rmd_simulator import settings as settings_mod
from nova_ext_resources.testing.rmd_simulator import validation
from nova_ext_resources.testing.rmd_simulator import workload


def merge(
    settings: settings_mod.Settings,
    record: workload.Record,
    patched: workload.Record,
) -> tuple[bool, int | None]:
    """Take over what is new.

    :return: whether anything is, and the new limit of bandwidth if any
    :raises CannotEnforce: a value is refused
    """
    if patched.policy:
        if patched.policy == record.policy:
            return False, None
        record.policy = patched.policy
        # RMD finds out that it does not exist after it released the old.
        with contextlib.suppress(validation.Refused):
            validation.fill_by_policy(settings, record)
        return True, None
    has_new = [
        _take(record, patched, field) for field in ('cache_max', 'cache_min')
    ]
    limit = _merge_bandwidth(settings, record, patched)
    has_new.append(_has_new_plugins(settings, record, patched))
    return limit is not None or any(has_new), limit


def _take(
    record: workload.Record, patched: workload.Record, field: str
) -> bool:
    """Take over one value; the policy's name goes with it."""
    value = getattr(patched, field)
    if value is None:
        return False
    is_new = bool(getattr(record, field) != value)
    record.policy = ''
    setattr(record, field, value)
    return is_new


def _merge_bandwidth(
    settings: settings_mod.Settings,
    record: workload.Record,
    patched: workload.Record,
) -> int | None:
    if settings.mba_mode == 'mbps' and patched.percentage is not None:
        raise allocation.CannotEnforce('Please provide MBA in Mbps')
    if settings.mba_mode == 'percentage' and patched.mbps is not None:
        raise allocation.CannotEnforce('Please provide MBA in Percentage')
    limit = None
    for field in ('percentage', 'mbps'):
        value = getattr(patched, field)
        maximum = settings_mod.MBA_MAXIMA[field]
        if value is not None and not 0 < value <= maximum:
            raise allocation.CannotEnforce(
                f'MBA values range only from 1 to {maximum}'
            )
        if _take(record, patched, field):
            limit = value
    return limit


def _has_new_plugins(
    settings: settings_mod.Settings,
    record: workload.Record,
    patched: workload.Record,
) -> bool:
    has_new = False
    for name, values in patched.plugins.items():
        # Numbers never equal stored ones, which have another type in Go.
        has_numbers = any(
            isinstance(value, gojson.Number) for value in values.values()
        )
        if record.plugins.get(name) == values and not has_numbers:
            continue
        has_new = True
        try:
            validation.validate_plugin(settings, name, values, record)
        except validation.Refused as err:
            raise allocation.CannotEnforce(str(err)) from None
    return has_new
