# SPDX-License-Identifier: Apache-2.0

"""What a request asks of extended resources, read from Nova's objects."""

from collections.abc import Mapping
from typing import Any

from nova import context as nova_context
from nova import exception as nova_exc
from nova import objects
from oslo_db import exception as db_exc
from oslo_log import log as logging
import sqlalchemy as sa

from nova_ext_resources.claims import extra_specs
from nova_ext_resources.claims import lease
from nova_ext_resources.claims.schedule import candidates
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import requirements
from nova_ext_resources.objects import resource
from nova_ext_resources.reservation import lending

LOG = logging.getLogger(__name__)

#: Of Nova's databases, whatever they are about.
DATABASE_ERRORS = (
    db_exc.CantStartEngineError,
    db_exc.DBError,
    sa.exc.SQLAlchemyError,
)

#: Scheduler hint that names the reservation of a server.
HINT = 'nova_ext:reservation'


def find_requirement(
    spec_obj: Any, grammar: extra_specs.Grammar
) -> requirements.Requirement | None:
    """Return what the flavor asks for; None when that is nothing of ours.

    :raises InvalidExtraSpec: it asks in a way that nobody understands
    """
    specs: Mapping[str, str] = get_extra_specs(spec_obj)
    if not any(map(extra_specs.is_ours, specs)):
        return None
    requirement = extra_specs.parse(specs, grammar)
    return requirement if find_classes(requirement) else None


def find_classes(requirement: requirements.Requirement) -> frozenset[str]:
    """Return the resource classes that are not Nova's own."""
    return frozenset(requirement.resources) - resource.NOVA_CLASSES


def get_extra_specs(spec_obj: Any) -> Mapping[str, str]:
    flavor = spec_obj.flavor
    if 'extra_specs' not in flavor:
        return {}
    specs: Mapping[str, str] = flavor.extra_specs
    return specs


def find_sizes(spec_obj: Any) -> candidates.Sizes:
    """Return the dedicated CPUs of each guest NUMA cell.

    :returns: () when any of the vCPUs floats, as with ``hw:cpu_policy=mixed``
        (the host takes it like that, too); None when the request does not
        say, as an older conductor's may not
    """
    if 'numa_topology' not in spec_obj:
        return None
    topology = spec_obj.numa_topology
    cells = topology.cells if topology else ()
    if any(cell.cpuset or not cell.pcpuset for cell in cells):
        return ()
    return tuple(len(cell.pcpuset) for cell in cells)


def find_text(host_state: Any) -> str | None:
    """Return the stats document, as text, if the host has published one."""
    # NOTE: a host that has not reported its usage yet has no such attribute.
    published = getattr(host_state, 'stats', None)
    return published.get(stats.KEY) if published else None


def has_driver(host_state: Any) -> bool:
    """Return whether nova-compute there has a driver of this package.

    Nova writes stats with the compute node, before it has any provider of
    ours. A host of an older release has the document only.
    """
    published = getattr(host_state, 'stats', None) or {}
    return stats.KEY in published or stats.LIVE_KEY in published


def find_free(host_state: Any) -> list[set[int]] | None:
    """Return the free dedicated CPUs of each of the host's NUMA cells."""
    topology = host_state.numa_topology
    if not topology:
        return None
    try:
        return [cell.pcpuset - cell.pinned_cpus for cell in topology.cells]
    # NOTE: what Nova raises for a field that an older host did not fill.
    except NotImplementedError:
        return None


def is_multiple(spec_obj: Any) -> bool:
    """Return whether the request may create several servers."""
    return 'num_instances' in spec_obj and spec_obj.num_instances > 1


def get_server_uuid(spec_obj: Any) -> str:
    return (
        'instance_uuid' in spec_obj and spec_obj.instance_uuid
    ) or 'unknown'


def get_flavor_name(spec_obj: Any) -> str:
    flavor = spec_obj.flavor
    return ('name' in flavor and flavor.name) or 'unknown'


def get_request_id(spec_obj: Any) -> str:
    context = getattr(spec_obj, '_context', None)
    return getattr(context, 'request_id', None) or 'unknown'


def identify(spec_obj: Any) -> dict[str, str]:
    """Return what names a request in a line of the log."""
    return {
        'server': get_server_uuid(spec_obj),
        'request': get_request_id(spec_obj),
    }


def find_reservation(spec_obj: Any) -> str | None:
    """Return the reservation that a server asks for; None without one.

    A hint that is no name, or several, gives a name that none has: the server
    is refused with it. Its place would be missed, or taken from the wrong one.
    """
    values = get_hints(spec_obj).get(HINT)
    if values is None:
        return None
    # JSON can have what is no text: no database takes it.
    text = ', '.join(map(str, values))
    return text.encode(errors='replace').decode() or "''"


def get_hints(spec_obj: Any) -> lease.Hints:
    if 'scheduler_hints' not in spec_obj or not spec_obj.scheduler_hints:
        return {}
    hints: lease.Hints = spec_obj.scheduler_hints
    return hints


def get_project(spec_obj: Any) -> str:
    return ('project_id' in spec_obj and spec_obj.project_id) or ''


def is_owner(spec_obj: Any, project: str) -> bool:
    """Return whether a server may use what a project has reserved.

    What was reserved for no project ('') is the operators': an administrator
    uses it for servers of his own project, and nobody else does.
    """
    own, context = get_project(spec_obj), getattr(spec_obj, '_context', None)
    if project or not context:
        return bool(project) and project == own
    return bool(context.is_admin) and (context.project_id or '') == own


def find_end(spec_obj: Any, now: int) -> int:
    """Return when a server ends that asks for no reservation.

    :param now: seconds since the epoch
    :returns: the same; ``FOREVER`` where neither it nor its flavor says
    """
    specs, hints = get_extra_specs(spec_obj), get_hints(spec_obj)
    return lending.find_end(specs, now, hints)


def find_problem(spec_obj: Any) -> str:
    """Return what is wrong with the end that a server asks for; or ''.

    What was created before, and only moves, is not refused for it.
    """
    specs, hints = get_extra_specs(spec_obj), get_hints(spec_obj)
    fault = lending.find_fault(specs, hints)
    return fault if fault and is_move(spec_obj) is False else ''


def is_move(spec_obj: Any) -> bool | None:
    """Return whether the server is in a cell: it was built before.

    Asks the database of Nova's API; None if that does not answer.
    """
    try:
        found = objects.InstanceMapping.get_by_instance_uuid(
            nova_context.get_admin_context(), get_server_uuid(spec_obj)
        )
    except nova_exc.InstanceMappingNotFound:
        return False
    # An error would reach Nova when it may have claimed for other servers of
    # the request, and Nova would leave these claims.
    except DATABASE_ERRORS as err:
        LOG.warning(
            "Cannot read from Nova's API database whether server %(server)s "
            '(request %(request)s) is being moved: %(err)s',
            {'err': err, **identify(spec_obj)},
        )
        return None
    return found.cell_mapping is not None
