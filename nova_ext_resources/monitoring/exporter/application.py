# SPDX-License-Identifier: Apache-2.0

"""The WSGI application for metrics, health and a picture of the host.

The endpoint ``/health`` answers with JSON.
"""

from collections.abc import Callable, Iterable
from typing import Any, TYPE_CHECKING, TypeAlias
import datetime
import gzip
import http
import json

from oslo_log import log as logging
import prometheus_client
from prometheus_client import exposition

from nova_ext_resources import log_on_change
from nova_ext_resources.monitoring.exporter import page as page_mod
from nova_ext_resources.monitoring.exporter import series
from nova_ext_resources.objects import alarm as alarm_mod
from nova_ext_resources.objects import host_health
from nova_ext_resources import plugins

LOG = logging.getLogger(__name__)

#: The most alarms that are listed, the most severe first.
MAX_ALARMS = 200


def make_report(health: host_health.HostHealth) -> dict[str, Any]:
    """Return the answer of ``/health``."""
    return {
        'status': health.status.value,
        'host': health.host,
        'at': _format(health.at),
        'plugins': {_make_name(one): _make_part(one) for one in health.parts},
        'alarms_total': len(health.alarms),
        'alarms': [_make_alarm(one) for one in health.alarms[:MAX_ALARMS]],
    }


def _make_name(part: host_health.PartHealth) -> str:
    return f'{part.part}/{part.name}' if part.name else part.part.value


def _make_part(part: host_health.PartHealth) -> dict[str, Any]:
    return {
        'status': _find_status(part),
        'last_success_at': _format(part.last_success_at),
        'failing_since': _format(part.failing_since),
        'failure': part.failure,
    }


def _find_status(part: host_health.PartHealth) -> str:
    if part.failing_since is not None:
        return 'failing'
    return 'unknown' if part.last_success_at is None else 'ok'


def _make_alarm(alarm: alarm_mod.Alarm) -> dict[str, Any]:
    return {
        'name': alarm.name,
        'former_name': alarm_mod.FORMER_NAMES.get(alarm.name),
        'severity': alarm.severity.value,
        'subject': alarm.subject,
        'text': alarm.text,
        'since': _format(alarm.since),
    }


def _format(at: datetime.datetime | None) -> str | None:
    return at.isoformat(timespec='seconds') if at else None


if TYPE_CHECKING:
    from _typeshed import wsgi


#: Server name in all answers; the default shows the version of Python.
SERVER = 'nova-ext-resources'

#: Load balancers check with HEAD.
_METHODS = ('GET', 'HEAD')

_TEXT = 'text/plain; charset=utf-8'

#: Status, headers besides the usual ones, content type, body.
_Answer: TypeAlias = tuple[http.HTTPStatus, list[tuple[str, str]], str, bytes]

#: Makes the answer to a request.
_Page: TypeAlias = Callable[['wsgi.WSGIEnvironment'], _Answer]


class Application:
    """Answers GET and HEAD of its three pages, nothing else.

    :param read: returns all that is known of the host, without I/O
    """

    def __init__(
        self,
        registry: prometheus_client.CollectorRegistry,
        read: Callable[[], series.HostSnapshot],
    ) -> None:
        self._registry = registry
        self._read = read
        self._logged = log_on_change.LogOnChange()
        self._pages: dict[str, _Page] = {
            '/': self._show_host,
            '/metrics': self._show_metrics,
            '/health': self._show_health,
        }

    def __call__(
        self,
        environ: 'wsgi.WSGIEnvironment',
        start_response: 'wsgi.StartResponse',
    ) -> Iterable[bytes]:
        status, headers, kind, body = self._answer(environ)
        start_response(
            f'{status.value} {status.phrase}',
            [
                ('Content-Type', kind),
                ('Content-Length', str(len(body))),
                ('Server', SERVER),
                ('Cache-Control', 'no-store'),
                ('X-Content-Type-Options', 'nosniff'),
                *headers,
            ],
        )
        # No body may follow a HEAD request; its length is in the headers.
        return [] if environ['REQUEST_METHOD'] == 'HEAD' else [body]

    def _answer(self, environ: 'wsgi.WSGIEnvironment') -> _Answer:
        page = self._pages.get(environ.get('PATH_INFO', ''))
        if page is None:
            return _refuse(
                http.HTTPStatus.NOT_FOUND,
                'the only pages are /, /metrics and /health',
            )
        if environ['REQUEST_METHOD'] not in _METHODS:
            return _refuse(
                http.HTTPStatus.METHOD_NOT_ALLOWED,
                'only GET and HEAD are allowed',
                ('Allow', ', '.join(_METHODS)),
            )
        try:
            answer = page(environ)
        # A tracker of a third party may raise anything: the server goes on.
        except Exception as err:
            if self._logged.note(plugins.describe(err)):
                LOG.exception(
                    'A request for metrics or health failed. Please report '
                    'this bug'
                )
            return _refuse(
                http.HTTPStatus.INTERNAL_SERVER_ERROR,
                'an error occurred; its reason is in the log of the service',
            )
        self._logged.clear()
        return answer

    def _show_metrics(self, environ: 'wsgi.WSGIEnvironment') -> _Answer:
        encode, kind = exposition.choose_encoder(
            environ.get('HTTP_ACCEPT', '')
        )
        body = encode(self._registry)
        headers = [('Vary', 'Accept, Accept-Encoding')]
        if exposition.gzip_accepted(environ.get('HTTP_ACCEPT_ENCODING', '')):
            headers.append(('Content-Encoding', 'gzip'))
            # Higher levels save little, and cost CPU time that servers need.
            body = gzip.compress(body, compresslevel=1)
        return http.HTTPStatus.OK, headers, kind, body

    def _show_health(self, environ: 'wsgi.WSGIEnvironment') -> _Answer:
        health = self._read().health
        is_failing = health.status is host_health.HealthStatus.FAILING
        return (
            http.HTTPStatus.SERVICE_UNAVAILABLE
            if is_failing
            else http.HTTPStatus.OK,
            [],
            'application/json',
            f'{json.dumps(make_report(health), indent=2)}\n'.encode(),
        )

    def _show_host(self, environ: 'wsgi.WSGIEnvironment') -> _Answer:
        text = page_mod.make_page(self._read())
        return (
            http.HTTPStatus.OK,
            # Should any text come to be taken for markup, it can load nothing.
            [
                (
                    'Content-Security-Policy',
                    "default-src 'none'; style-src 'unsafe-inline'; "
                    "base-uri 'none'; form-action 'none'; "
                    "frame-ancestors 'none'",
                )
            ],
            'text/html; charset=utf-8',
            text.encode(),
        )


def _refuse(
    status: http.HTTPStatus, reason: str, *headers: tuple[str, str]
) -> _Answer:
    return status, list(headers), _TEXT, f'{reason}\n'.encode()
