# SPDX-License-Identifier: Apache-2.0

"""Errors of the demo's cloud.

::

    CloudError
      + IncompleteInstallation     what is missing, where it was looked for
      + ChildFailed                name, reason, log
        - ChildNotReady            the same, after a deadline
"""

from collections.abc import Sequence
import pathlib


class CloudError(Exception):
    """Anything that keeps the cloud from running."""


class IncompleteInstallation(CloudError):
    """A file that an OpenStack package installs is not where it should be.

    :ivar path: where the file was expected
    """

    def __init__(self, path: pathlib.Path, package: str) -> None:
        self.path = path
        super().__init__(
            f'{path} does not exist. Install {package} from its wheel into '
            f'the environment that runs this, for example with: '
            f'python -m pip install {package}'
        )


class ChildFailed(CloudError):
    """A process of the cloud ended before it was told to.

    :ivar name: name of the process
    :ivar reason: what happened, as one line
    :ivar tail: the last lines that the process wrote
    """

    def __init__(
        self,
        name: str,
        reason: str,
        *,
        log: pathlib.Path,
        tail: Sequence[str] = (),
    ) -> None:
        self.name = name
        self.reason = reason
        self.tail = tuple(tail)
        said = '\n'.join(f'  | {line}' for line in self.tail)
        super().__init__(
            f'{name}: {reason}. The end of {log}:\n{said}'
            if said
            else f'{name}: {reason}. It wrote nothing to {log}.'
        )


class ChildNotReady(ChildFailed):
    """A process of the cloud runs but did not answer in time."""
