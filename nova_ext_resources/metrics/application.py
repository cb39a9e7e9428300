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

"""What is answered over HTTP: a WSGI application of two pages."""

from collections.abc import Callable, Iterable
import gzip
import http
import json
from typing import TYPE_CHECKING, TypeAlias

from oslo_log import log as logging
import prometheus_client
from prometheus_client import exposition

from nova_ext_resources.metrics import report
from nova_ext_resources.objects import health as health_obj
from nova_ext_resources.plugins import loader

if TYPE_CHECKING:
    from _typeshed import wsgi

LOG = logging.getLogger(__name__)

#: Name in all answers; wsgiref would tell the version of Python.
SERVER = 'nova-ext-resources'

#: Load balancers check with HEAD.
_METHODS = ('GET', 'HEAD')

_TEXT = 'text/plain; charset=utf-8'

#: Status, headers beside the usual ones, type, body.
_Answer: TypeAlias = tuple[http.HTTPStatus, list[tuple[str, str]], str, bytes]

#: Makes the answer to a request.
_Page: TypeAlias = Callable[['wsgi.WSGIEnvironment'], _Answer]


class Application:
    """Answers GET and HEAD of ``/metrics`` and ``/health``, nothing else.

    :param health: gives how the host is, without I/O
    """

    def __init__(
        self,
        registry: prometheus_client.CollectorRegistry,
        health: Callable[[], health_obj.Snapshot],
    ) -> None:
        self._registry = registry
        self._health = health
        self._failure = ''
        self._pages: dict[str, _Page] = {
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
        # The length is told; a body must not follow a HEAD.
        return [] if environ['REQUEST_METHOD'] == 'HEAD' else [body]

    def _answer(self, environ: 'wsgi.WSGIEnvironment') -> _Answer:
        page = self._pages.get(environ.get('PATH_INFO', ''))
        if page is None:
            return _refuse(
                http.HTTPStatus.NOT_FOUND, 'there are /metrics and /health'
            )
        if environ['REQUEST_METHOD'] not in _METHODS:
            return _refuse(
                http.HTTPStatus.METHOD_NOT_ALLOWED,
                'only GET and HEAD are allowed',
                ('Allow', ', '.join(_METHODS)),
            )
        try:
            answer = page(environ)
        # A third party's tracker may have a hand in it: the server goes on.
        except Exception as err:
            failure = loader.describe(err)
            if failure != self._failure:
                LOG.exception('Metrics or health cannot be told; report this')
            self._failure = failure
            return _refuse(
                http.HTTPStatus.INTERNAL_SERVER_ERROR,
                'it cannot be told now; the log of the service has why',
            )
        self._failure = ''
        return answer

    def _show_metrics(self, environ: 'wsgi.WSGIEnvironment') -> _Answer:
        encode, kind = exposition.choose_encoder(
            environ.get('HTTP_ACCEPT', '')
        )
        body = encode(self._registry)
        headers = [('Vary', 'Accept, Accept-Encoding')]
        if exposition.gzip_accepted(environ.get('HTTP_ACCEPT_ENCODING', '')):
            headers.append(('Content-Encoding', 'gzip'))
            # More costs more than it saves: hosts have better to do.
            body = gzip.compress(body, compresslevel=1)
        return http.HTTPStatus.OK, headers, kind, body

    def _show_health(self, environ: 'wsgi.WSGIEnvironment') -> _Answer:
        health = self._health()
        is_failing = health.status is health_obj.Status.FAILING
        return (
            http.HTTPStatus.SERVICE_UNAVAILABLE
            if is_failing
            else http.HTTPStatus.OK,
            [],
            'application/json',
            f'{json.dumps(report.make_report(health), indent=2)}\n'.encode(),
        )


def _refuse(
    status: http.HTTPStatus, reason: str, *headers: tuple[str, str]
) -> _Answer:
    return status, list(headers), _TEXT, f'{reason}\n'.encode()
