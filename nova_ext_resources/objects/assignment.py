# SPDX-License-Identifier: Apache-2.0

"""What one consumer requests from this host, and what it holds here."""

from collections.abc import Mapping, Sequence, Set
import dataclasses
import datetime
import enum
from typing import Any

from nova_ext_resources.objects import requirements


class State(enum.StrEnum):
    """The progress of an entry of the ledger.

    ``CLAIMED``: recorded, nothing on the host was changed yet.
    ``APPLIED``: the enforcers have applied it.
    ``PARKED``: kept by a move for a guest that is not here. Nothing is
    applied.
    ``RELEASING``: its settings are being removed, then the entry is deleted.
    """

    # Ledgers and metrics have the values, also those of former releases.

    CLAIMED = 'claimed'
    APPLIED = 'applied'
    PARKED = 'held'
    RELEASING = 'releasing'

    #: Former name, for plugins, for one release.
    HELD = PARKED


class Purpose(enum.StrEnum):
    """What a server holds an entry for.

    ``OWN``: its guest is here, and has it.
    ``MIGRATION_DEST``: a move has claimed it, and the guest has not come yet.
    On the host that the server is on already, under the migration's uuid,
    until its guest is off.
    ``MIGRATION_SOURCE``: it had that before a move, under the migration's
    uuid, for its way back.
    """

    # Ledgers have the values, also those of former releases.

    OWN = 'own'
    MIGRATION_DEST = 'incoming'
    MIGRATION_SOURCE = 'kept'

    #: Former names, for plugins, for one release.
    INCOMING = MIGRATION_DEST
    KEPT = MIGRATION_SOURCE


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Consumer:
    """What placement calls a consumer: a server, or one side of its move.

    :ivar consumer_uuid: the server's uuid, or the migration's uuid for what
        a move keeps on the source; the key in placement, in the ledger and
        in drivers
    :ivar server_uuid: the server in Nova; by default the consumer itself
    :ivar project_id: owner of the server, None when unknown
    :ivar flavor: name of the server's flavor, None when unknown
    """

    consumer_uuid: str
    server_uuid: str = ''
    project_id: str | None = None
    flavor: str | None = None

    def __post_init__(self) -> None:
        if not self.server_uuid:
            object.__setattr__(self, 'server_uuid', self.consumer_uuid)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pinning:
    """What is known of the CPUs of a server before Nova has chosen them.

    :ivar sizes: dedicated CPUs of each guest NUMA cell; () when not even
        that is known
    :ivar free: free dedicated CPUs of each of the host's NUMA cells; None
        when the host does not report them
    """

    sizes: tuple[int, ...] = ()
    free: Sequence[Set[int]] | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """Units of one resource class of one provider, held by a consumer.

    :ivar rp_key: the provider's key on this host, such as ``L3_0``
    :ivar amount: how many units
    :ivar units: which ones, in the tracker's format, JSON types only, such
        as ``{'mask': '1e'}``
    :ivar is_allocated: whether placement has an allocation for it; an
        implied class of service has none and counts as reserved there
    """

    rp_uuid: str
    rp_key: str
    resource_class: str
    amount: int
    units: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    is_allocated: bool = True


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry(Consumer):
    """All that the ledger records of one consumer.

    :ivar claimed_at: aware, UTC; None when unknown
    :ivar cpus: as in :class:`ClaimRequest`
    :ivar enforcers: enforcer -> key -> value, from the flavor
    """

    state: State = State.CLAIMED
    purpose: Purpose = Purpose.OWN
    assignments: tuple[Assignment, ...]
    claimed_at: datetime.datetime | None = None
    cpus: frozenset[int] | None = None
    enforcers: Mapping[str, Mapping[str, str]] = dataclasses.field(
        default_factory=dict
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClaimRequest(Consumer):
    """What a consumer requests from a host.

    :ivar allocations: rp_uuid -> resource class -> amount, as placement
        has allocated it; may include providers of others
    :ivar requirement: parsed from the flavor
    :ivar cpus: host CPUs that Nova has pinned the server to; None when it
        floats, or is not pinned yet
    :ivar float_cpus: host CPUs that a floating server runs on, where Nova
        confines it to NUMA cells; None: all, or not known
    :ivar pinning: what is known of its CPUs before Nova has chosen them, as
        in the scheduler; None where ``cpus`` is all
    """

    allocations: Mapping[str, Mapping[str, int]]
    requirement: requirements.Requirement
    cpus: frozenset[int] | None = None
    float_cpus: frozenset[int] | None = None
    pinning: Pinning | None = None

    @property
    def is_floating(self) -> bool:
        """Whether it is certain that no CPUs are its own."""
        return not self.cpus and self.pinning is None

    @property
    def near_cpus(self) -> frozenset[int] | None:
        """CPUs that must be able to use its units; None: any of the host."""
        return self.cpus or self.float_cpus

    def make_entry(
        self,
        assignments: tuple[Assignment, ...],
        claimed_at: datetime.datetime | None = None,
        **fields: Any,
    ) -> Entry:
        """Return the entry of a claim that succeeded.

        :param fields: its state and purpose; as of an entry by default
        """
        return Entry(
            **fields,
            consumer_uuid=self.consumer_uuid,
            server_uuid=self.server_uuid,
            project_id=self.project_id,
            flavor=self.flavor,
            claimed_at=claimed_at,
            assignments=assignments,
            cpus=self.cpus,
            enforcers=self.requirement.enforcers,
        )
