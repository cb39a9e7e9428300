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

"""Health as JSON, for the endpoint ``/health``. Pure."""

import datetime
from typing import Any

from nova_ext_resources import alarms
from nova_ext_resources.objects import health as health_obj

#: How many alarms are told one by one, the worst first.
MAX_ALARMS = 200


def make_report(health: health_obj.Snapshot) -> dict[str, Any]:
    """Give what ``/health`` answers."""
    return {
        'status': health.status.value,
        'host': health.host,
        'at': _format(health.at),
        'plugins': {_make_name(one): _make_part(one) for one in health.parts},
        'alarms_total': len(health.alarms),
        'alarms': [_make_alarm(one) for one in health.alarms[:MAX_ALARMS]],
    }


def _make_name(part: health_obj.PartHealth) -> str:
    return f'{part.part}/{part.name}' if part.name else part.part.value


def _make_part(part: health_obj.PartHealth) -> dict[str, Any]:
    return {
        'status': _find_status(part),
        'last_success_at': _format(part.last_success_at),
        'failing_since': _format(part.failing_since),
        'failure': part.failure,
    }


def _find_status(part: health_obj.PartHealth) -> str:
    if part.failing_since is not None:
        return 'failing'
    return 'unknown' if part.last_success_at is None else 'ok'


def _make_alarm(alarm: alarms.Alarm) -> dict[str, Any]:
    return {
        'name': alarm.name,
        'severity': alarm.severity.value,
        'subject': alarm.subject,
        'text': alarm.text,
        'since': _format(alarm.since),
    }


def _format(at: datetime.datetime | None) -> str | None:
    return at.isoformat(timespec='seconds') if at else None
