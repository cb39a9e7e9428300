# SPDX-License-Identifier: Apache-2.0

"""Which scenarios are played, in their order."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from dev.gate.scenarios import blazar
from dev.gate.scenarios import crowd
from dev.gate.scenarios import deletes
from dev.gate.scenarios import devices
from dev.gate.scenarios import devstack
from dev.gate.scenarios import evacuation
from dev.gate.scenarios import lease
from dev.gate.scenarios import life
from dev.gate.scenarios import moves
from dev.gate.scenarios import promise
from dev.gate.scenarios import quota
from dev.gate.scenarios import releases
from dev.gate.scenarios import removal
from dev.gate.scenarios import request
from dev.gate.scenarios import restarts
from dev.gate import site as sites

#: Its docstring is its title.
Scenario: TypeAlias = Callable[[sites.Site], None]

SCENARIOS: Mapping[str, Scenario] = {
    'life': life.play,
    'request': request.play,
    'evacuation': evacuation.play,
    'deletes': deletes.play,
    'moves': moves.play,
    'quota': quota.play,
    'devices': devices.play,
    'devstack': devstack.play,
    'crowd': crowd.play,
    'restarts': restarts.play,
    'releases': releases.play,
    'removal': removal.play,
    # From here on nova-scheduler keeps what is reserved.
    'lease': lease.play,
    'blazar': blazar.play,
    'promise': promise.play,
}

#: For a look after each change: as much as fits into a few minutes.
SHORT: Mapping[str, Scenario] = {
    'life': life.play_shortly,
    'crowd': crowd.play_shortly,
    'restarts': restarts.play_shortly,
    'lease': lease.play,
    'promise': promise.play,
}
