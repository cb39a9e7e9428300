# SPDX-License-Identifier: Apache-2.0

"""What all files of resource definitions define together. Pure.

The first definition of a place is used. One with an error keeps its place,
with the last good definition or with none: a later definition of the same
place would offer what was refused so far.
"""

from collections.abc import Container, Iterable
from typing import TypeAlias

from nova_ext_resources.drivers.static import broken
from nova_ext_resources.drivers.static import definitions

Resources: TypeAlias = dict[definitions.Place, definitions.StaticResource]

_Entry: TypeAlias = definitions.StaticResource | definitions.BadDefinition

#: What there is no good definition of.
Lost: TypeAlias = dict[definitions.Place, definitions.BadDefinition]

_NOTHING = (
    'none of its resources is offered, and nothing is deleted from placement, '
    'until it is corrected'
)


class Contents:
    """Files are added in their order, each by its entries in their order.

    :ivar resources: which are used from now on
    :ivar lost: of which there is no good definition now
    :ivar left_out: names of what is not used; paths of broken files
    :ivar errors: lines for the log, in order
    :param resources: which were used before
    :param lost: of which there was no good definition then
    """

    def __init__(
        self, resources: Resources | None = None, lost: Lost | None = None
    ) -> None:
        self.resources: Resources = {}
        self.lost: Lost = {}
        self.left_out: set[str] = set()
        self.errors: list[str] = []
        self._former = resources or {}
        self._former_lost = lost or {}

    def add(self, parsed: definitions.Parsed) -> None:
        """Add a file."""
        entries: list[_Entry] = [*parsed[0], *parsed[1]]
        for one in sorted(entries, key=definitions.find_number):
            if isinstance(one, definitions.BadDefinition):
                self._refuse(one)
            else:
                self._add_good(one)

    def keep(self, file: broken.BrokenFile, types: Container[str]) -> None:
        """Add the last good contents of a file that cannot be read.

        :param types: trackers that an entry may name
        """
        places = [k for k, v in self._former.items() if v.path == file.path]
        lost = {
            place: one
            for place, one in self._former_lost.items()
            if one.path == file.path
        }
        if not places:
            # What another file has defined so far, that may go on to define.
            lost = {
                one.places[0]: one
                for one in file.list_possible(types)
                if one.places[0] not in self._former
            } | lost
        self.left_out.add(file.path)
        self._fill(places, lost)
        effect = (
            'its last good contents are used until nova-compute is restarted'
            if places
            else _NOTHING
        )
        self.errors.append(
            f'bad file of resource definitions; {effect}: {file.path}, '
            f'{file.reason}; {file.advice}'
        )

    def _fill(self, places: Iterable[definitions.Place], lost: Lost) -> None:
        """Fill places that are free as they were before."""
        for place in places:
            if place not in self.lost:
                self.resources.setdefault(place, self._former[place])
        for place, one in lost.items():
            if place not in self.resources:
                self.lost.setdefault(place, one)
                self.left_out.add(one.subject)

    def _add_good(self, one: definitions.StaticResource) -> None:
        """Add one where no other is; report where another is."""
        taken: dict[str, list[definitions.Place]] = {}
        for place in one.places:
            first = self.lost.get(place) or self.resources.setdefault(
                place, one
            )
            if first is not one:
                taken.setdefault(first.origin, []).append(place)
        for origin, places in taken.items():
            nodes = ', '.join(node for node, *_ in places if node)
            self._refuse(
                one.refuse(
                    places,
                    f'provider {one.rp_key}{nodes and f" of {nodes}"} already '
                    f'has this class from {origin}; remove one definition, or '
                    'give each its own provider',
                )
            )

    def _refuse(self, bad: definitions.BadDefinition) -> None:
        """Report one that is not used, and have its places taken."""
        effects = sorted({self._find_effect(bad, one) for one in bad.places})
        self.errors.extend(
            f'bad resource definition; {", or ".join(effects)}: {line}'
            for line in bad.list_lines()
        )
        self.left_out.add(bad.subject)

    def _find_effect(
        self, bad: definitions.BadDefinition, place: definitions.Place
    ) -> str:
        if place in self.resources:
            return 'the first definition is used'
        if place in self._former and place not in self.lost:
            self.resources[place] = self._former[place]
            return (
                'the last good definition is used until nova-compute is '
                'restarted; correct the definition'
            )
        self.lost.setdefault(place, bad)
        return _NOTHING
