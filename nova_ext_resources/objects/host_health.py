# SPDX-License-Identifier: Apache-2.0

"""The health of a host, as values: its parts, and what is wrong."""

import dataclasses
import datetime
import enum

from nova_ext_resources.objects import alarm as alarm_mod


class Part(enum.StrEnum):
    """A part of the service that can work or fail by itself."""

    INVENTORY_PROVIDER = 'inventory_provider'
    ENFORCER = 'enforcer'
    HEALING = 'healing'
    LEDGER = 'ledger'
    PUBLISHER = 'publisher'
    MONITORING = 'monitoring'
    TUNING = 'tuning'


class HealthStatus(enum.StrEnum):
    """The health of a host as a whole.

    ``OK``: nothing is wrong.
    ``DEGRADED``: something is, but all allocated resources are applied.
    ``FAILING``: allocated resources are not applied, or that is unknown.
    """

    OK = 'ok'
    DEGRADED = 'degraded'
    FAILING = 'failing'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PartHealth:
    """The health of one plugin, or of another part of the service.

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
class HostHealth:
    """The health of a host at one moment.

    :ivar alarms: the most severe first
    """

    host: str
    at: datetime.datetime
    status: HealthStatus
    parts: tuple[PartHealth, ...]
    alarms: tuple[alarm_mod.Alarm, ...]
