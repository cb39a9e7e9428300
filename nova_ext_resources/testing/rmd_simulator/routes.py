# SPDX-License-Identifier: Apache-2.0

"""RMD's paths: go-restful's rules first, then the handlers."""

from collections.abc import Callable, Sequence
import posixpath
import re

from nova_ext_resources.testing.rmd_simulator import allocation
from nova_ext_resources.testing.rmd_simulator import cores
from nova_ext_resources.testing.rmd_simulator import daemon as daemon_mod
from nova_ext_resources.testing.rmd_simulator import gojson
from nova_ext_resources.testing.rmd_simulator import messages
from nova_ext_resources.testing.rmd_simulator import pages
from nova_ext_resources.testing.rmd_simulator import validation
from nova_ext_resources.testing.rmd_simulator import workload

_Handler = Callable[
    [daemon_mod.Daemon, messages.Request, Sequence[str]], messages.Response
]

#: Methods that may come without a Content-Type.
_WITHOUT_BODY = frozenset({'GET', 'HEAD', 'OPTIONS', 'DELETE', 'TRACE'})

_NO_WORKLOAD = '404: Could not found workload'
_BAD_REQUEST = (
    'Failed to read request correctly. Please check request syntax and data'
)


def respond(
    daemon: daemon_mod.Daemon, request: messages.Request
) -> messages.Response:
    """Answer a request.

    :raises Panic: the connection is to be closed without an answer
    """
    cleaned = _clean(request.path)
    if cleaned != request.path:
        # Go adds text and type for these two methods alone.
        is_shown = request.method in ('GET', 'HEAD')
        text = f'<a href="{cleaned}">Moved Permanently</a>.\n\n'
        return messages.Response(
            status=301,
            body=text * is_shown,
            content_type='text/html; charset=utf-8' if is_shown else None,
            headers=(('Location', cleaned),),
        )
    tokens = request.path.strip('/').split('/')
    service = _services(daemon).get('/'.join(tokens[:2]))
    if service is None:
        return messages.Response(
            status=404,
            body='404 page not found\n',
            content_type=messages.SNIFFED,
            headers=(messages.NO_SNIFF,),
        )
    arguments = tokens[2:]
    if service is _SERVICES['v1/workloads']:
        # Its pattern for an id lets slashes through, too.
        arguments = ['/'.join(arguments)] if arguments else []
    for patterns, handlers in service:
        if len(patterns) == len(arguments) and all(
            map(re.search, patterns, arguments)
        ):
            return _dispatch(daemon, request, arguments, handlers)
    return messages.text(404, '404: Page Not Found')


def _clean(path: str) -> str:
    """Make a path as Go's mux wants it; others are redirected."""
    cleaned = posixpath.normpath('/' + path.lstrip('/'))
    if path.endswith('/') and cleaned != '/':
        cleaned += '/'
    return cleaned


def _dispatch(
    daemon: daemon_mod.Daemon,
    request: messages.Request,
    arguments: Sequence[str],
    handlers: dict[str, _Handler],
) -> messages.Response:
    handler = handlers.get(request.method)
    if handler is None:
        return messages.text(405, '405: Method Not Allowed')
    if not _is_json(request):
        return messages.text(415, '415: Unsupported Media Type')
    if not _accepts_json(request):
        return messages.text(406, '406: Not Acceptable')
    return handler(daemon, request, arguments)


def _is_json(request: messages.Request) -> bool:
    sent = request.headers.get('content-type', '')
    if not sent:
        return request.method in _WITHOUT_BODY
    return messages.JSON in _media_types(sent)


def _accepts_json(request: messages.Request) -> bool:
    accepted = _media_types(request.headers.get('accept', '') or '*/*')
    return '*/*' in accepted or messages.JSON in accepted


def _media_types(header: str) -> set[str]:
    return {part.split(';')[0].strip() for part in header.split(',')}


def _get_summary(
    daemon: daemon_mod.Daemon, _request: messages.Request, _: Sequence[str]
) -> messages.Response:
    return messages.entity(pages.cache_summary(daemon.settings))


def _get_level(
    daemon: daemon_mod.Daemon, _request: messages.Request, at: Sequence[str]
) -> messages.Response:
    try:
        if at[0] == 'l2':
            raise pages.Unreadable()
        return messages.entity(pages.cache_level(daemon))
    except pages.Unreadable:
        return messages.text(400, '')


def _get_cache(
    daemon: daemon_mod.Daemon, _request: messages.Request, at: Sequence[str]
) -> messages.Response:
    try:
        if at[0] == 'l2':
            raise pages.Unreadable()
        caches = pages.cache_level(daemon)['Caches']
    except pages.Unreadable:
        return messages.text(500, '')
    cache_id = int(at[1])
    if str(cache_id) not in caches:
        return messages.text(
            404, f'Cache id {cache_id} for level 3 is not found'
        )
    return messages.entity(caches[str(cache_id)])


def _get_policies(
    daemon: daemon_mod.Daemon, _request: messages.Request, _: Sequence[str]
) -> messages.Response:
    return messages.entity(pages.policies(daemon.settings))


def _get_bandwidth(
    daemon: daemon_mod.Daemon, _request: messages.Request, _: Sequence[str]
) -> messages.Response:
    return messages.entity(pages.bandwidth())


def _get_plugin(
    daemon: daemon_mod.Daemon, _request: messages.Request, _: Sequence[str]
) -> messages.Response:
    settings = {
        core: record.plugins['pstate']
        for record in daemon.list_records()
        if 'pstate' in record.plugins
        for core in record.core_ids
    }
    return messages.entity(gojson.sort_map(settings))


def _post_hospitality(
    daemon: daemon_mod.Daemon, request: messages.Request, _: Sequence[str]
) -> messages.Response:
    try:
        data = gojson.decode(request.body)
        return messages.entity(pages.hospitality(daemon, data))
    except gojson.Go as err:
        return messages.text(500, str(err), messages.PLAIN)
    except allocation.CannotEnforce as err:
        return messages.text(500, str(err))


def _list_workloads(
    daemon: daemon_mod.Daemon, _request: messages.Request, _: Sequence[str]
) -> messages.Response:
    return messages.entity([r.to_body() for r in daemon.list_records()])


def _get_workload(
    daemon: daemon_mod.Daemon, _request: messages.Request, at: Sequence[str]
) -> messages.Response:
    try:
        return messages.entity(daemon.get_record(at[0]).to_body())
    except daemon_mod.NotFound:
        return messages.text(404, _NO_WORKLOAD, messages.PLAIN)


def _post_workload(
    daemon: daemon_mod.Daemon, request: messages.Request, _: Sequence[str]
) -> messages.Response:
    try:
        data = gojson.decode(request.body)
    except gojson.Go:
        return messages.text(500, _BAD_REQUEST, messages.PLAIN)
    if data is None:
        raise cores.Panic('nil pointer')
    record, complaint = workload.from_body(data)
    if complaint:
        return messages.text(500, _BAD_REQUEST, messages.PLAIN)
    record.status = record.cos_name = ''
    record.origin = workload.REST
    try:
        return messages.entity(daemon.create(record).to_body(), 201)
    except validation.Refused as err:
        return messages.text(
            400,
            f'Failed to validate workload. Reason: {err}',
            messages.PLAIN,
        )
    except allocation.CannotEnforce as err:
        return messages.text(500, str(err), messages.PLAIN)


def _patch_workload(
    daemon: daemon_mod.Daemon, request: messages.Request, at: Sequence[str]
) -> messages.Response:
    try:
        daemon.get_record(at[0])
        record = _read_patch(request.body)
        return messages.entity(daemon.patch(at[0], record).to_body())
    except daemon_mod.NotFound:
        return messages.text(404, _NO_WORKLOAD, messages.PLAIN)
    except daemon_mod.NotOurs:
        return messages.text(
            200,
            '200: You only have permission to modify REST origin workloads',
            messages.PLAIN,
        )
    except (allocation.CannotEnforce, cores.BadCores) as err:
        return messages.text(500, str(err))


def _read_patch(body: str) -> workload.Record:
    """Read what can be read; RMD ignores what its decoder says."""
    try:
        data = gojson.decode(body)
    except gojson.Go:
        data = {}
    if data is None:
        raise cores.Panic('nil pointer')
    return workload.from_body(data)[0]


def _delete_workload(
    daemon: daemon_mod.Daemon, _request: messages.Request, at: Sequence[str]
) -> messages.Response:
    try:
        daemon.delete(at[0])
    except daemon_mod.NotFound:
        return messages.text(404, _NO_WORKLOAD, messages.PLAIN)
    except daemon_mod.NotOurs:
        return messages.text(
            200,
            '200: You only have permission to delete REST origin workloads',
            messages.PLAIN,
        )
    return messages.text(200, '')


_LEVEL = r'^l([2-3]|lc)$'

#: Service -> (patterns of the rest of the path, method -> handler).
_SERVICES: dict[
    str, tuple[tuple[tuple[str, ...], dict[str, _Handler]], ...]
] = {
    'v1/cache': (
        ((), {'GET': _get_summary}),
        ((_LEVEL,), {'GET': _get_level}),
        ((_LEVEL, r'^[0-9]+$'), {'GET': _get_cache}),
    ),
    'v1/policy': (((), {'GET': _get_policies}),),
    'v1/mba': (((), {'GET': _get_bandwidth}),),
    'v1/hospitality': (((), {'POST': _post_hospitality}),),
    'v1/workloads': (
        ((), {'GET': _list_workloads, 'POST': _post_workload}),
        (
            # RMD's pattern for digits is not anchored: it lets all through.
            (r'',),
            {
                'GET': _get_workload,
                'PATCH': _patch_workload,
                'DELETE': _delete_workload,
            },
        ),
    ),
}


def _services(
    daemon: daemon_mod.Daemon,
) -> dict[str, tuple[tuple[tuple[str, ...], dict[str, _Handler]], ...]]:
    """Return the services, with those of the loaded plugins."""
    return {
        **_SERVICES,
        **{
            f'v1/{name}': (((), {'GET': _get_plugin}),)
            for name in daemon.settings.plugins
        },
    }
