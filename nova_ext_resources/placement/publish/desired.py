# SPDX-License-Identifier: Apache-2.0

"""What a provider shall be, given what placement has of it. Pure: no I/O."""

from collections.abc import Collection, Mapping
import dataclasses

from nova_ext_resources.objects import host_provider


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DesiredProvider:
    """What is wanted of one provider, whatever placement has of it.

    :ivar wanted: with or without the owner trait, which all of them get
    :ivar consumers: resource class -> consumer uuids; what they hold is kept,
        closed
    :ivar may_delete: see :func:`.diff.plan`
    :ivar is_emptied: whether it is no longer wanted, and stays all the same:
        once it has no inventories, it ties the host to no pool
    :ivar former: as it was when the host deleted it; None where it did not
    """

    wanted: host_provider.Provider
    consumers: Mapping[str, Collection[str]] = dataclasses.field(
        default_factory=dict
    )
    may_delete: bool = True
    is_emptied: bool = False
    former: host_provider.Provider | None = None

    def find_target(
        self, seen: host_provider.Provider | None
    ) -> host_provider.Provider:
        """Add the owner trait, what operators added, and what is held.

        :param seen: None where placement does not have it
        """
        wanted, former = self.wanted, self.former or self.wanted
        added = former.traits - wanted.published_traits
        aggregates = wanted.aggregates | former.aggregates
        if seen is None:
            return dataclasses.replace(
                wanted,
                traits=wanted.traits | added | {host_provider.OWNER_TRAIT},
                aggregates=aggregates,
                generation=None,
            )
        if not self.may_delete:
            wanted = _add(wanted, seen)
        closed = {
            name: dataclasses.replace(
                seen.inventories[name], reserved=seen.inventories[name].total
            )
            for name in list_vanished(wanted, seen)
            if self.consumers.get(name)
        }
        added |= seen.traits - wanted.published_traits
        inventories = {**wanted.inventories, **closed}
        is_tied = inventories or not self.is_emptied
        return dataclasses.replace(
            wanted,
            traits=wanted.traits | added | {host_provider.OWNER_TRAIT},
            aggregates=(
                aggregates | seen.aggregates if is_tied else frozenset()
            ),
            inventories=inventories,
            generation=None,
        )


def close(
    wanted: host_provider.Provider, classes: Collection[str]
) -> host_provider.Provider:
    """Return a wanted provider of whose classes some are offered to none."""
    return dataclasses.replace(
        wanted,
        inventories={
            name: dataclasses.replace(one, reserved=one.total)
            if name in classes
            else one
            for name, one in wanted.inventories.items()
        },
    )


def list_vanished(
    wanted: host_provider.Provider | None, seen: host_provider.Provider
) -> list[str]:
    """Return the resource classes that a provider shall no longer have."""
    kept = wanted.inventories if wanted else {}
    return sorted(seen.inventories.keys() - kept.keys())


def _add(
    wanted: host_provider.Provider, seen: host_provider.Provider
) -> host_provider.Provider:
    """Add what is seen of a provider to what is wanted.

    Traits only where a part was not read: of one that was, they may have
    changed, as those of an FPGA region that was programmed anew.
    """
    is_whole = not wanted.is_unread and not list_vanished(wanted, seen)
    return dataclasses.replace(
        wanted,
        inventories={**seen.inventories, **wanted.inventories},
        traits=wanted.traits if is_whole else wanted.traits | seen.traits,
    )
