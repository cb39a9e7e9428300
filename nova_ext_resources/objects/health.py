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

"""How a host is, as values: its parts, and what is wrong."""

import dataclasses
import datetime
import enum

from nova_ext_resources import alarms


class Part(enum.StrEnum):
    """What can work or fail by itself."""

    INVENTORY_PROVIDER = 'inventory_provider'
    ENFORCER = 'enforcer'
    HEALING = 'healing'
    LEDGER = 'ledger'
    PUBLISHER = 'publisher'
    MONITORING = 'monitoring'
    TUNING = 'tuning'


class Status(enum.StrEnum):
    """How a host is as a whole.

    ``OK``: nothing is wrong.
    ``DEGRADED``: something is, and what servers hold is in force.
    ``FAILING``: something sold is not in force, or nobody can tell.
    """

    OK = 'ok'
    DEGRADED = 'degraded'
    FAILING = 'failing'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PartHealth:
    """How one plugin, or another part of the service, fares.

    :ivar name: the plugin's entry point name, '' where there is only one
    :ivar last_success_at: aware, UTC; None: never since the start
    :ivar failing_since: None while it does not fail
    :ivar failure: why it fails, '' while it does not
    """

    part: Part
    name: str = ''
    last_success_at: datetime.datetime | None = None
    failing_since: datetime.datetime | None = None
    failure: str = ''
    alarm: str = ''


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """How a host was at one moment.

    :ivar alarms: the worst first
    """

    host: str
    at: datetime.datetime
    status: Status
    parts: tuple[PartHealth, ...]
    alarms: tuple[alarms.Alarm, ...]
