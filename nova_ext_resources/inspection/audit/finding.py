# SPDX-License-Identifier: Apache-2.0

"""One thing that is wrong, and what to do about it."""

from collections.abc import Iterator
import dataclasses
import enum

from nova_ext_resources.facts import consumer_role
from nova_ext_resources.inspection.audit import cloud as cloud_mod
from nova_ext_resources.reservation import nova_server


class FindingKind(enum.StrEnum):
    """What is wrong.

    ``NO_CONSUMER``: allocated to a consumer of which Nova knows nothing.
    ``MIGRATION_ENDED``: allocated to a migration that has ended.
    ``ALLOCATION_HERE_SERVER_ELSEWHERE``: allocated to a server that is on
    another host.
    ``POOL_NOT_REACHED``: of a pool that the server's host does not reach.
    ``NOT_ALLOCATED``: less is allocated to a server than its flavor requests.
    ``TOO_MUCH``: more is.
    ``OVERSOLD``: more of a provider is allocated than it has.
    ``HOST_GONE``: a provider of a host that Nova does not have.
    ``NO_HOST``: a provider below no host, which is no pool either.
    ``NOT_MARKED``: a provider without the trait that tells its owner.
    ``POOL_UNTIED``: a pool outside the aggregate by which hosts reach it.
    ``POOL_UNREACHED``: a pool that no host reaches.
    ``POOL_GONE``: a host is tied to a pool that placement does not have.
    ``TIE_LOST``: what ties a host to a pool has lost the aggregate.
    """

    NO_CONSUMER = 'no_consumer'
    MIGRATION_ENDED = 'migration_ended'
    ALLOCATION_HERE_SERVER_ELSEWHERE = 'allocation_here_server_elsewhere'
    POOL_NOT_REACHED = 'pool_not_reached'
    NOT_ALLOCATED = 'not_allocated'
    TOO_MUCH = 'too_much'
    OVERSOLD = 'oversold'
    HOST_GONE = 'host_gone'
    NO_HOST = 'no_host'
    NOT_MARKED = 'not_marked'
    POOL_UNTIED = 'pool_untied'
    POOL_UNREACHED = 'pool_unreached'
    POOL_GONE = 'pool_gone'
    TIE_LOST = 'tie_lost'


class Remedy(enum.StrEnum):
    """Who does something about it.

    ``REPAIR``: the allocation is a leftover, and can be taken away; or it is
    known what to allocate.
    ``OPERATOR``: nothing can be changed without doubt.
    ``WAIT``: Nova is at work on it.
    ``DONE``: it was changed.
    """

    REPAIR = 'repair'
    OPERATOR = 'operator'
    WAIT = 'wait'
    DONE = 'done'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong.

    :ivar host: name of the hypervisor, '' for none
    :ivar provider: without the name of the host, '' for several
    :ivar rp_uuid: its uuid, '' likewise
    :ivar consumer: uuid in placement, '' for none
    :ivar server: uuid of the server that it is, or that it moves; '' for none
    :ivar amount: units that are wrong
    :ivar text: what to do
    """

    kind: FindingKind
    remedy: Remedy
    text: str
    host: str = ''
    provider: str = ''
    rp_uuid: str = ''
    resource_class: str = ''
    consumer: str = ''
    server: str = ''
    amount: int = 0

    @property
    def subject(self) -> tuple[str, ...]:
        """What it is about, the same in each comparison."""
        return self.kind, self.rp_uuid, self.resource_class, self.consumer

    @property
    def correction(self) -> int:
        """How much more the consumer has after a repair; below 0 for less."""
        is_missing = self.kind is FindingKind.NOT_ALLOCATED
        return self.amount if is_missing else -self.amount


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AllocationVerdict:
    """What is to be done about an allocation."""

    remedy: Remedy
    text: str


REPAIR = AllocationVerdict(
    remedy=Remedy.REPAIR, text='leftover: --repair deletes it'
)
ALLOCATE = AllocationVerdict(
    remedy=Remedy.REPAIR,
    text='missing: --repair allocates it, if placement has room',
)

#: Statuses of servers that stay as they are until somebody asks for something.
_SETTLED = frozenset(
    {
        'ACTIVE',
        'PAUSED',
        'RESCUE',
        'SHELVED',
        nova_server.OFFLOADED,
        'SHUTOFF',
        'SOFT_DELETED',
        'SUSPENDED',
    }
)

ERROR = 'ERROR'

_Phase = consumer_role.MigrationPhase

#: Phases of migrations that hold what they have rightly.
GOES_ON = (_Phase.OPEN, _Phase.WAITING, _Phase.EVACUATED)

_LEFT = (_Phase.ABANDONED, _Phase.STUCK)


def wait(reason: str) -> AllocationVerdict:
    return AllocationVerdict(remedy=Remedy.WAIT, text=f'in progress: {reason}')


def ask(text: str) -> AllocationVerdict:
    """Leave it to the operator."""
    return AllocationVerdict(remedy=Remedy.OPERATOR, text=text)


def find_task(
    cloud: cloud_mod.AuditedCloud, server: nova_server.NovaServer
) -> AllocationVerdict | None:
    """Return that Nova is at work on a server, or was; None: neither."""
    if server.task_state:
        return wait(f'the task of the server is {server.task_state}')
    moves = cloud.moves_of.get(server.uuid, ())
    for one in filter(None, (find_left(cloud, move) for move in moves)):
        return one
    if server.status not in _SETTLED | {ERROR}:
        return wait(f'the server is in {server.status}')
    for move in moves:
        if cloud.find_phase(move) in GOES_ON:
            return wait(_explain(move))
    return None


def find_left(
    cloud: cloud_mod.AuditedCloud, move: cloud_mod.NovaMigration
) -> AllocationVerdict | None:
    """Return that Nova goes on no more with a migration that has not ended."""
    if cloud.find_phase(move) not in _LEFT:
        return None
    return ask(
        f'migration {move.uuid} has been "{move.status}" for more than an '
        'hour, and its server has no task in Nova: compare both '
        f'({show(move.uuid, move.server_uuid)}), and see migration_unclear on '
        'the page of alarms, and "nova-compute was killed" on the page of '
        'troubleshooting'
    )


def show(*consumers: str) -> str:
    """Return the commands that show what consumers hold."""
    return '; '.join(
        f'openstack resource provider allocation show {one}'
        for one in consumers
    )


def _explain(move: cloud_mod.NovaMigration) -> str:
    if move.kind == consumer_role.EVACUATION:
        return (
            f'the server was evacuated from {move.source}, whose nova-compute '
            'deletes this allocation at its next start. If that host is gone '
            'for good, delete its service: openstack compute service delete'
        )
    return f'migration {move.uuid} of the server is "{move.status}"'


def make(
    cloud: cloud_mod.AuditedCloud,
    kind: FindingKind,
    rp_uuid: str,
    verdict: AllocationVerdict,
    *,
    resource_class: str = '',
    consumer: str = '',
    server: str = '',
    amount: int = 0,
) -> Finding:
    """Make one about a provider."""
    host, provider = cloud.name_provider(rp_uuid)
    return Finding(
        kind=kind,
        remedy=verdict.remedy,
        text=verdict.text,
        host=host,
        provider=provider,
        rp_uuid=rp_uuid,
        resource_class=resource_class,
        consumer=consumer,
        server=server,
        amount=amount,
    )


def list_allocations(
    cloud: cloud_mod.AuditedCloud,
    kind: FindingKind,
    consumer: str,
    verdict: AllocationVerdict,
    *,
    server: str = '',
) -> Iterator[Finding]:
    """Make one for each resource of this package that a consumer holds."""
    for rp_uuid, resources in cloud.allocations[consumer].items():
        if rp_uuid not in cloud.owned:
            continue
        for name, amount in sorted(resources.items()):
            yield make(
                cloud,
                kind,
                rp_uuid,
                verdict,
                resource_class=name,
                consumer=consumer,
                server=server,
                amount=amount,
            )
