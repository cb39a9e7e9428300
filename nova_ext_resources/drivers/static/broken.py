# SPDX-License-Identifier: Apache-2.0

"""Files of resource definitions that cannot be read as a whole. Pure.

Their other definitions are not known. What they may define is found by words
of the text, for what servers hold of it.
"""

import dataclasses
import itertools
import re

from nova_ext_resources.drivers.static import definitions

_NAME = re.compile(r'\bname["\']?\s*:\s*["\']?([A-Z0-9_]+)')
_PROVIDER = re.compile(r'\bprovider["\']?\s*:\s*["\']?([A-Za-z0-9_.:-]+)')


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BrokenFile:
    """One that is not used.

    :ivar reason: with the line, where that is known
    :ivar text: as far as it could be read
    """

    path: str
    reason: str
    text: str = ''

    def list_possible(self) -> list[definitions.BadDefinition]:
        """Return what it may define of this host, one for each place."""
        keys = {definitions.DEFAULT_KEY, *_PROVIDER.findall(self.text)}
        names = {*_NAME.findall(self.text)}
        return [
            definitions.BadDefinition(
                origin=self.path,
                places=(('', key, name),),
                reason=self.reason,
            )
            for key, name in itertools.product(sorted(keys), sorted(names))
        ]
