# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Makes values for the tests of tuning: everything has a default."""

from collections.abc import Mapping
from typing import Any

from nova_ext_resources.objects import share
from nova_ext_resources import rdt
from nova_ext_resources.tuning import history
from nova_ext_resources.tuning import moves
from nova_ext_resources.tuning import pressure

L3 = 'L3_0'
WAYS = (L3, rdt.BURST)
PERCENT = (L3, rdt.PERCENT)

POOLS = {
    WAYS: moves.Pool(capacity=12),
    PERCENT: moves.Pool(capacity=100, step=10, max_step=10, is_tried=False),
}


def make_share(consumer_uuid: str = 'a', **fields: Any) -> share.Share:
    given: dict[str, Any] = {
        'consumer_uuid': consumer_uuid,
        'rp_key': L3,
        'resource_class': rdt.BURST,
        'minimum': 2,
        'maximum': 10,
        'amount': 4,
    }
    return share.Share(**{**given, **fields})


def make_pressure(
    consumer_uuid: str = 'a', value: float = 0.5, **fields: Any
) -> pressure.Pressure:
    given: dict[str, Any] = {
        'consumer_uuid': consumer_uuid,
        'rp_key': L3,
        'resource_class': rdt.BURST,
        'value': value,
    }
    return pressure.Pressure(**{**given, **fields})


def make_track(value: float = 0.5, **fields: Any) -> history.Track:
    """Make one about which enough is known since long ago."""
    given: dict[str, Any] = {
        'amount': 4,
        'changed_at': -1000.0,
        'pressure': value,
        'count': 10,
        'is_fresh': True,
        'wants': value > history.Limits().want_above,
    }
    return history.Track(**{**given, **fields})


def make_state(
    tracks: Mapping[str, history.Track], *trials: history.Trial
) -> history.State:
    return history.State(
        tracks={(uuid, *WAYS): track for uuid, track in tracks.items()},
        trials=trials,
    )
