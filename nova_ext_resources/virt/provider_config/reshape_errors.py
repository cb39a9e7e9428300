# SPDX-License-Identifier: Apache-2.0

"""Why placement refused a reshape of Nova's, and what to do."""

from collections.abc import Mapping
import http
import re
import textwrap
from typing import Any

from nova import exception as nova_exc

from nova_ext_resources.objects.documents import foreign_data

#: Characters of an answer that are shown.
_MAX_ANSWER = 500

_UUID = re.compile(r'[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}')


def explain(err: nova_exc.NovaException, names: Mapping[str, str]) -> str:
    """Return what was refused, and what an operator does about it.

    :param err: ``ReshapeFailed`` or ``PlacementReshapeConflict``, which have
        placement's answer in words
    :param names: rp_uuid -> name of a provider of the host
    """
    if isinstance(err, nova_exc.PlacementReshapeConflict):
        return (
            'during each attempt of Nova, other software wrote to the same '
            'providers. Restart nova-compute'
        )
    text = str(err.kwargs.get('error', err))
    answer = _read_answer(text)
    if answer.get('status') == http.HTTPStatus.FORBIDDEN:
        return (
            'the user of Nova in placement needs the role "service" for '
            'POST /reshaper. Give it that role, and restart nova-compute'
        )
    words = ' '.join(str(answer.get('detail') or text).split())
    named = _UUID.sub(lambda m: _name(m.group(), names), words)
    shown = textwrap.shorten(named, _MAX_ANSWER, placeholder=' ...')
    return (
        'placement refused the request to move the allocations: '
        f'{shown.rstrip(".")}. Correct the cause, and restart nova-compute'
    )


def _read_answer(text: str) -> Mapping[str, Any]:
    """Return the error in an answer; nothing where it is of other form."""
    try:
        error = foreign_data.load_json(text)['errors'][0]
    except foreign_data.UNREADABLE:
        return {}
    return error if isinstance(error, Mapping) else {}


def _name(uuid: str, names: Mapping[str, str]) -> str:
    return f'{names[uuid]} ({uuid})' if uuid in names else uuid
