# SPDX-License-Identifier: Apache-2.0

"""Health as JSON, for the endpoint ``/health``. Pure."""

import datetime
from typing import Any

from nova_ext_resources.objects import alarm as alarm_mod
from nova_ext_resources.objects import health as health_obj

#: The most alarms that are listed, the most severe first.
MAX_ALARMS = 200


def make_report(health: health_obj.HostHealth) -> dict[str, Any]:
    """Return the answer of ``/health``."""
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


def _make_alarm(alarm: alarm_mod.Alarm) -> dict[str, Any]:
    return {
        'name': alarm.name,
        'severity': alarm.severity.value,
        'subject': alarm.subject,
        'text': alarm.text,
        'since': _format(alarm.since),
    }


def _format(at: datetime.datetime | None) -> str | None:
    return at.isoformat(timespec='seconds') if at else None
