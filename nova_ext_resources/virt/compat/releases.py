# SPDX-License-Identifier: Apache-2.0

"""The releases of Nova that this package works with; each has its tests."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """A release of Nova.

    :ivar major: first part of its version
    :ivar name: of the release of OpenStack that it is part of
    """

    major: int
    name: str

    def __str__(self) -> str:
        return f'{self.major} ({self.name})'


#: The newest first. For each but that one there are a file of constraints, an
#: environment of tox, a job, and a line in the support matrix.
SUPPORTED = (
    Release(major=34, name='2026.2'),
    Release(major=33, name='2026.1'),
    Release(major=32, name='2025.2'),
)


def is_supported(version: str) -> bool:
    """Return whether there are tests with this version of Nova."""
    major = version.partition('.')[0]
    return major in {str(one.major) for one in SUPPORTED}


def describe() -> str:
    """Name all of them, for messages."""
    newest, *others = SUPPORTED
    return f'{", ".join(map(str, reversed(others)))} or {newest}'
