# SPDX-License-Identifier: Apache-2.0

"""Files of resource definitions that cannot be read as a whole. Pure.

Their other definitions are not known. What they may define is found by words
of the text, for what servers hold of it.
"""

from collections.abc import Container, Iterator
import dataclasses
import itertools
import re

from nova_ext_resources.drivers.static import definitions

_NAME = re.compile(r'\bname["\']?\s*:\s*["\']?([A-Z0-9_]+)')
_PROVIDER = re.compile(r'\bprovider["\']?\s*:\s*["\']?([A-Za-z0-9_.:-]+)')
_TYPE = re.compile(r'\btype["\']?\s*:\s*["\']?(\w+)')

#: Where an entry begins.
_ITEM = re.compile(r'^\s*-\s', re.MULTILINE)

#: What is in quotes, in which # begins no comment; or a comment.
_QUOTED_OR_COMMENT = re.compile(
    r'("[^"\n]*"|\'[^\'\n]*\')|(?:^|(?<=\s))#.*', re.MULTILINE
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BrokenFile:
    """One that is not used.

    :ivar reason: with the line, where that is known
    :ivar is_readable: whether the system has let it be read
    :ivar text: of a readable one
    """

    path: str
    reason: str
    is_readable: bool = True
    text: str = ''

    @property
    def advice(self) -> str:
        """What the operator can do."""
        if self.is_readable:
            return 'correct the file'
        return 'make the file readable for the user of nova-compute'

    def list_possible(
        self, types: Container[str]
    ) -> list[definitions.BadDefinition]:
        """Return what it may define of this host, one for each place.

        :param types: trackers that an entry may name
        """
        text = _QUOTED_OR_COMMENT.sub(lambda found: found[1] or '', self.text)
        keys = {definitions.DEFAULT_KEY, *_PROVIDER.findall(text)}
        names = dict(_list_names(text, types))
        return [
            definitions.BadDefinition(
                origin=self.path,
                places=(('', key, name),),
                reason=self.reason,
                type=names[name],
            )
            for key, name in itertools.product(sorted(keys), sorted(names))
        ]


def _list_names(text: str, types: Container[str]) -> Iterator[tuple[str, str]]:
    """Return each name with the tracker that its entry has."""
    for entry in _ITEM.split(text):
        found = {one for one in _TYPE.findall(entry) if one in types}
        kind = found.pop() if len(found) == 1 else 'count'
        for name in _NAME.findall(entry):
            yield name, kind
