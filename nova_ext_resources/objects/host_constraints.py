# SPDX-License-Identifier: Apache-2.0

"""What a host can never do, as its plugins declare it, or cannot do now.

Plain values: the host refuses claims by them, and publishes them, so that
the scheduler refuses the same requests in the same words. Whatever a reader
does not know yet, it passes over; what a writer did not know yet is not
constrained.
"""

from collections.abc import Iterable, Mapping
import dataclasses
import functools
from typing import Any, Self

from nova_ext_resources.objects.documents import foreign_data

#: Field of :class:`ClassConstraints` -> its key where it is published.
_NAMES = {
    'needs': 'n',
    'needs_beside': 'b',
    'excludes': 'x',
    'excludes_beside': 'y',
}

_FLAGS = {'is_uniform': 'u', 'needs_cores': 'o'}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ClassConstraints:
    """What a host can never do with one resource class.

    Sets contain resource classes; ``excludes`` also keys of enforcers, such
    as ``rmd:pstate_ratio``.

    :ivar attributes: attribute -> its margin: by how many units its value
        must differ from the amount, and be above zero; with 0 the tracker
        alone checks the value. None: all attributes of the tracker
    :ivar needs: the server must request one of these too
    :ivar needs_beside: the server must request one of these too, on exactly
        the same providers
    :ivar excludes: the server must not request these
    :ivar excludes_beside: the server must not request these on the same
        provider
    :ivar is_uniform: whether amounts must be equal on all providers
    :ivar needs_cores: whether the server must have all threads of the cores
        that it runs on
    """

    attributes: Mapping[str, int] | None = None
    needs: frozenset[str] = frozenset()
    needs_beside: frozenset[str] = frozenset()
    excludes: frozenset[str] = frozenset()
    excludes_beside: frozenset[str] = frozenset()
    is_uniform: bool = False
    needs_cores: bool = False

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types; what does not constrain is left out."""
        written: dict[str, Any] = {
            key: sorted(getattr(self, name))
            for name, key in _NAMES.items()
            if getattr(self, name)
        }
        if self.attributes is not None:
            written['a'] = dict(self.attributes)
        flags = {key: 1 for name, key in _FLAGS.items() if getattr(self, name)}
        return written | flags

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what ``to_dict`` wrote.

        :raises (AttributeError, TypeError, ValueError): it is something else
        """
        read: dict[str, Any] = {
            name: frozenset(map(str, data.get(key, ())))
            for name, key in _NAMES.items()
        }
        read |= {name: bool(data.get(key)) for name, key in _FLAGS.items()}
        attributes = data.get('a')
        return cls(
            attributes=None
            if attributes is None
            else {
                str(k): foreign_data.read_whole(v)
                for k, v in attributes.items()
            },
            **read,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Constraints:
    """What a host can never do.

    :ivar enforcers: the enabled ones; None where that is not known
    :ivar tests: the enabled claim tests; None where that is not known
    :ivar classes: resource class -> its constraints
    :ivar spreads_pins: whether a pinned server may have CPUs in several cache
        domains, and then gets what it requests in each of them
    :ivar refused: resource class -> the alarm for which a new claim of it
        fails now. Only of a view that is published: the host itself refuses
        such a claim when it cannot apply it, and servers that stay are none
    """

    enforcers: frozenset[str] | None = None
    tests: tuple[str, ...] | None = None
    classes: Mapping[str, ClassConstraints] = dataclasses.field(
        default_factory=dict
    )
    spreads_pins: bool = False
    refused: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __bool__(self) -> bool:
        return self != NONE

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types."""
        written: dict[str, Any] = {
            'c': {name: one.to_dict() for name, one in self.classes.items()}
        }
        if self.enforcers is not None:
            written['e'] = sorted(self.enforcers)
        if self.tests is not None:
            written['t'] = list(self.tests)
        if self.spreads_pins:
            written['p'] = 1
        if self.refused:
            written['r'] = dict(self.refused)
        return written

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Read what ``to_dict`` wrote.

        :raises (AttributeError, TypeError, ValueError): it is something else
        """
        enforcers, tests = data.get('e'), data.get('t')
        return cls(
            enforcers=None
            if enforcers is None
            else frozenset(map(str, enforcers)),
            tests=None if tests is None else tuple(map(str, tests)),
            classes={
                str(name): ClassConstraints.from_dict(one)
                for name, one in data.get('c', {}).items()
            },
            spreads_pins=bool(data.get('p')),
            refused={str(k): str(v) for k, v in data.get('r', {}).items()},
        )


#: Nothing is constrained, as far as anybody knows.
NONE = Constraints()


def unite(
    declared: Iterable[Mapping[str, ClassConstraints]],
) -> dict[str, ClassConstraints]:
    """Return what holds where all of these hold."""
    united: dict[str, ClassConstraints] = {}
    for classes in declared:
        for name, one in classes.items():
            united[name] = (
                _unite_two(united[name], one) if name in united else one
            )
    return united


def _unite_two(
    one: ClassConstraints, other: ClassConstraints
) -> ClassConstraints:
    attributes = [
        each.attributes for each in (one, other) if each.attributes is not None
    ]
    return ClassConstraints(
        attributes=functools.reduce(_intersect, attributes)
        if attributes
        else None,
        **{
            name: getattr(one, name) | getattr(other, name)
            for name in (*_NAMES, *_FLAGS)
        },
    )


def _intersect(
    one: Mapping[str, int], other: Mapping[str, int]
) -> Mapping[str, int]:
    return {
        name: max(margin, other[name])
        for name, margin in one.items()
        if name in other
    }
