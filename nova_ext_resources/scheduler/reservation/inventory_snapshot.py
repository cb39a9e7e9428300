# SPDX-License-Identifier: Apache-2.0

"""Notes what hosts have published, for those that plan for a later time.

Hosts tell Nova which units are free, and Nova tells schedulers alone: no API
has it. Who plans has the database of the reservations, and no access to
Nova's. So schedulers write there what has changed. They do so in what Nova
calls from time to time beside all requests, about once a minute, and of all
schedulers together one at a time. What goes wrong is logged and tried again:
then less is known to those that plan, and no request is the slower for it.
"""

from collections.abc import Iterator, Mapping
import functools
from typing import Any

from nova import context as nova_context
from nova import objects
from nova.scheduler import manager
from oslo_log import log as logging
from oslo_service import periodic_task
from oslo_utils import timeutils

from nova_ext_resources import exception
from nova_ext_resources.objects.documents import holders
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.reservation import publication
from nova_ext_resources.reservation.store import publications
from nova_ext_resources.scheduler import request
from nova_ext_resources.scheduler.reservation import commitments

LOG = logging.getLogger(__name__)

#: From one round to the next. Nova calls once a minute, a bit more or less.
ROUND_SECONDS = 50

#: Compute nodes that are read at once.
PAGE = 200


class InventorySnapshots:
    """Notes the hosts of all cells.

    :param followed: has the database
    """

    def __init__(self, followed: commitments.Followed) -> None:
        self._followed = followed
        self._failure = ''

    def note(self, context: Any) -> None:
        """Note what has changed, if nobody did so a moment ago."""
        try:
            reason = self._note(context)
        except exception.StoreError as err:
            reason = str(err)
        except request.DATABASE_ERRORS as err:
            reason = f'a database of Nova does not answer: {err!r}'
        # It is no reason to stop what Nova does.
        except Exception as err:
            if repr(err) != self._failure:
                LOG.exception(
                    "Cannot record the hosts' published resources. Please "
                    'report this bug.'
                )
            self._failure = repr(err)
            return
        if reason and reason != self._failure:
            LOG.warning(
                "Cannot record the hosts' published resources for reservation "
                'planning: %(reason)s. This is retried every minute. The last '
                'record is used for up to %(age)d minutes; after that, '
                'reservations are planned by amounts alone.',
                {
                    'reason': reason.rstrip('.'),
                    'age': publications.MAX_AGE_SECONDS // 60,
                },
            )
        self._failure = reason

    def _note(self, context: Any) -> str:
        """Do so; return what is in the way, '' if nothing is."""
        database = self._followed.database
        now = int(timeutils.utcnow_ts())
        if not publications.begin_round(database, now, ROUND_SECONDS):
            # What another one meets, it says itself.
            return ''
        known = publications.read_digests(database)
        cells = [
            one
            for one in objects.CellMappingList.get_all(context)
            if not one.is_cell0()
        ]
        found = nova_context.scatter_gather_cells(
            context, cells, nova_context.CELL_TIMEOUT, list_changed, known
        )
        hosts: set[str] = set()
        silent = []
        for cell in cells:
            answer = found[cell.uuid]
            if nova_context.is_cell_failure_sentinel(answer):
                silent.append(cell.identity)
                continue
            names, changed = answer
            hosts |= names
            publications.write(database, changed)
        if silent:
            return f'these cells do not answer: {", ".join(sorted(silent))}'
        publications.end_round(database, hosts, now)
        return ''


def list_changed(
    context: Any, known: dict[str, str]
) -> tuple[set[str], list[publication.Publication]]:
    """Return the hosts of a cell, and the publications that have changed.

    :param known: host -> digest of its publication
    """
    hosts: set[str] = set()
    changed = []
    for node in _list_nodes(context):
        found = make_publication(node)
        if found is not None:
            hosts.add(found.host)
            if known.get(found.host) != found.digest:
                changed.append(found)
    return hosts, changed


def _list_nodes(context: Any) -> Iterator[Any]:
    marker = None
    while True:
        page = objects.ComputeNodeList.get_by_pagination(
            context, limit=PAGE, marker=marker
        )
        yield from page
        if len(page) < PAGE:
            break
        marker = page[-1].id


def make_publication(node: Any) -> publication.Publication | None:
    """Return what a compute node has published; None if it is nothing.

    :param node: a ``nova.objects.ComputeNode``
    """
    texts = node.stats or {}
    document = _find_text(texts, stats.KEY)
    if not document:
        return None
    return publication.Publication(
        host=node.hypervisor_hostname,
        document=document,
        holders=_find_text(texts, holders.KEY),
        cells=_write_cells(node),
    )


def _find_text(texts: Mapping[str, str | None], key: str) -> str:
    """Return a text of a host; '' if hosts do not publish such texts.

    Theirs is ASCII. Other characters may be none that the database takes,
    and all hosts of a transaction would be lost.
    """
    text = texts.get(key) or ''
    return text if text.isascii() and text.isprintable() else ''


def _write_cells(node: Any) -> str:
    """Return the dedicated CPUs of each NUMA cell; '' if nobody says."""
    if not node.numa_topology:
        return ''
    try:
        topology = objects.NUMATopology.obj_from_db_obj(node.numa_topology)
        return publication.write_cells(
            publication.Cell(
                cpus=frozenset(cell.pcpuset),
                free=frozenset(cell.pcpuset - cell.pinned_cpus),
            )
            for cell in topology.cells
        )
    # Whatever Nova raises for what an older, a newer or a broken host wrote:
    # it must not cost the other hosts.
    except Exception:
        return ''


#: The one that notes, of the filter that was made last.
_CURRENT: list[InventorySnapshots] = []


@periodic_task.periodic_task(run_immediately=True)
def note_published(_manager: Any, context: Any) -> None:
    """Have what hosts have published noted, about once a minute."""
    for one in _CURRENT:
        one.note(context)


def install(followed: commitments.Followed) -> None:
    """Have Nova call it from time to time."""
    _CURRENT[:] = [InventorySnapshots(followed)]
    _add_task()


@functools.cache
def _add_task() -> None:
    """Add a task to those of Nova's manager, which makes its filters first.

    The public method of oslo.service needs a manager that is made already.
    """
    try:
        manager.SchedulerManager._add_periodic_task(note_published)
    except AttributeError:
        LOG.error(
            'SchedulerManager of this Nova accepts no periodic task: '
            'reservations are planned by amounts alone. Install a release of '
            'nova-ext-resources that supports this release of Nova.'
        )
