# SPDX-License-Identifier: Apache-2.0

"""Why hosts said no, from the log of Nova's services."""

from collections.abc import Iterable, Iterator
import re

from dev.cloud import told
from dev.cloud import tree
from dev.demo import scene as scenes

#: How the scheduler's filter begins.
FILTER = 'ExtendedResourcesFilter refuses'

#: What logs it when a host refuses a claim; Nova's line has no host.
CLAIM = 'nova_ext_resources.virt.driver.errors'

#: In what a host says when it cannot look at itself.
DISCOVERY = 'could not discover'

_UUID = re.compile(r'[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}')
_REQUEST = re.compile(r' \(request [^)]*\)')

#: The class of an exception: between what was logged and its text.
_CLASS = re.compile(r':? (?:[a-z_]+\.)+[A-Z]\w+: ')


def show(scene: scenes.Scene, mark: int, *kinds: str, host: str = '') -> None:
    """Print why hosts said no since ``mark``.

    Uuids are shown as the names of the providers and servers behind them.

    :param kinds: words of which a line, or the name of its logger, must hold
        one
    :param host: a word that a line must hold
    :raises NotAsTold: nobody gave a reason
    """
    said = dict.fromkeys(
        replace_uuids(
            scene,
            (
                _clean(line.message)
                for line in scene.journal.since(mark, host)
                if any(
                    kind in f'{line.logger} {line.message}' for kind in kinds
                )
            ),
        )
    )
    told.expect(
        bool(said),
        f'a refusal of {host or "the hosts"} has a reason in the log',
    )
    scene.stage.listing('The reasons, from Nova\'s log', said)


def _clean(message: str) -> str:
    # Nova repeats what another host raised, as a list of lines.
    said = message.partition("['Traceback")[0].rstrip()
    return _CLASS.split(_REQUEST.sub('', said))[0]


def replace_uuids(scene: scenes.Scene, lines: Iterable[str]) -> Iterator[str]:
    """Return lines with names of providers and servers for their uuids."""
    names = {**scene.names, **tree.list_names(scene.cloud.placement)}
    for line in lines:
        yield _UUID.sub(lambda found: names.get(found[0], found[0]), line)
