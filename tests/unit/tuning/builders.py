# SPDX-License-Identifier: Apache-2.0

"""Makes values for the tests of tuning: everything has a default."""

from collections.abc import Mapping
from typing import Any

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.objects import tunable_units
from nova_ext_resources.tuning import history
from nova_ext_resources.tuning import pressure
from nova_ext_resources.tuning import steps

L3 = 'L3_0'
WAYS = (L3, classes.BURST)
PERCENT = (L3, classes.PERCENT)

POOLS = {
    WAYS: steps.UnitPool(capacity=12),
    PERCENT: steps.UnitPool(
        capacity=100, step=10, max_step=10, is_tried=False
    ),
}


def make_tunable(
    consumer_uuid: str = 'a', **fields: Any
) -> tunable_units.Tunable:
    given: dict[str, Any] = {
        'consumer_uuid': consumer_uuid,
        'rp_key': L3,
        'resource_class': classes.BURST,
        'minimum': 2,
        'maximum': 10,
        'amount': 4,
    }
    return tunable_units.Tunable(**{**given, **fields})


def make_pressure(
    consumer_uuid: str = 'a', value: float = 0.5, **fields: Any
) -> pressure.Pressure:
    given: dict[str, Any] = {
        'consumer_uuid': consumer_uuid,
        'rp_key': L3,
        'resource_class': classes.BURST,
        'value': value,
    }
    return pressure.Pressure(**{**given, **fields})


def make_track(value: float = 0.5, **fields: Any) -> history.Track:
    """Make one about which enough is known since long ago."""
    given: dict[str, Any] = {
        'amount': 4,
        'changed_at': -1000.0,
        'pressure': value,
        'waiting': value,
        'latest': value,
        'count': 10,
        'seen': 100,
        'is_fresh': True,
        'wants': value > history.TuningLimits().want_above,
    }
    return history.Track(**{**given, **fields})


def make_state(
    tracks: Mapping[str, history.Track], *trials: history.Trial
) -> history.TuningState:
    return history.TuningState(
        tracks={(uuid, *WAYS): track for uuid, track in tracks.items()},
        trials=trials,
    )
