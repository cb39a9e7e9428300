# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""How far a hand-over got: a file beside the ledger, while there is one.

nova-compute does not start meanwhile. With one backend enabled, and servers
in force at the other, it would put them into force a second time.
"""

import dataclasses
import enum
import json
import os

from nova_ext_resources import exception

SUFFIX = '.hand-over'

COMMAND = 'nova-ext-resources-hand-over'


class Phase(enum.StrEnum):
    """``RELEASING``: servers may be in force at the one it comes from.

    ``APPLYING``: none is there, and some may be at the one it goes to.
    """

    RELEASING = 'releasing'
    APPLYING = 'applying'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A hand-over that has begun and has not ended.

    :ivar source: backend that it comes from
    :ivar target: backend that it goes to
    """

    source: str
    target: str
    phase: Phase


class Journal:
    """The file of one ledger.

    :param ledger_path: the ledger, which is locked by whoever uses this
    """

    def __init__(self, ledger_path: str) -> None:
        # As with its lock: one ledger has one, by whatever path.
        self.path = os.path.realpath(ledger_path) + SUFFIX

    def read(self) -> Progress | None:
        """Give how far it got; None: there is none under way.

        :raises LedgerError: the file makes no sense
        """
        try:
            with open(self.path, encoding='utf-8') as file:
                data = json.load(file)
            return Progress(
                source=str(data['source']),
                target=str(data['target']),
                phase=Phase(data['phase']),
            )
        except FileNotFoundError:
            return None
        except (OSError, KeyError, TypeError, ValueError) as err:
            raise exception.LedgerError(
                path=self.path,
                reason=f'it cannot be read ({err}). A hand-over wrote it; '
                f'move it away and run {COMMAND} again',
            ) from err

    def write(self, progress: Progress) -> None:
        """Write it, synced, before anything is done that it tells of.

        :raises LedgerError: it could not be written
        """
        temporary = f'{self.path}.new'
        try:
            with open(temporary, 'w', encoding='utf-8') as file:
                json.dump(dataclasses.asdict(progress), file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)
            self._sync_folder()
        except OSError as err:
            raise self._tell_unwritable(err) from err

    def remove(self) -> None:
        """There is none under way any more.

        :raises LedgerError: it could not be removed
        """
        try:
            os.unlink(self.path)
            self._sync_folder()
        except FileNotFoundError:
            return
        except OSError as err:
            raise self._tell_unwritable(err) from err

    def _sync_folder(self) -> None:
        folder = os.open(os.path.dirname(self.path), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _tell_unwritable(self, err: OSError) -> exception.LedgerError:
        return exception.LedgerError(
            path=self.path, reason=f'it cannot be written ({err})'
        )


def check_none(ledger_path: str) -> None:
    """Refuse to run a host in the middle of a hand-over.

    :raises InvalidConfiguration: one has begun and has not ended
    :raises LedgerError: its file makes no sense
    """
    found = Journal(ledger_path).read()
    if found is not None:
        raise exception.InvalidConfiguration(
            option='[ext_resources] enforcers',
            value=f'{found.source} or {found.target}',
            reason=f'a hand-over from {found.source} to {found.target} has '
            f'begun and has not ended. Run {COMMAND} --from {found.source} '
            f'--to {found.target} again to end it, or --from {found.target} '
            f'--to {found.source} to go back',
        )
