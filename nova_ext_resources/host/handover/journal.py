# SPDX-License-Identifier: Apache-2.0

"""How far a hand-over got: a file beside the ledger, while there is one.

nova-compute does not start meanwhile, nor afterwards with the old backend.
With one backend enabled, and servers in force at the other, it would put them
into force a second time.
"""

from collections.abc import Collection
import dataclasses
import enum
import json
import os

from oslo_log import log as logging

from nova_ext_resources import exception

LOG = logging.getLogger(__name__)

SUFFIX = '.hand-over'

COMMAND = 'nova-ext-resources-hand-over'


class Phase(enum.StrEnum):
    """``RELEASING``: servers may be in force at the one it comes from.

    ``RETURNING``: the same of one that goes back; some may be at the one it
    goes to as well.

    ``RELEASED``: none is in force at either.

    ``APPLYING``: none is at the one it comes from, some may be at the other.

    ``DONE``: all are at the one it went to, and nova-compute has not been
    started with that one yet.
    """

    RELEASING = 'releasing'
    RETURNING = 'returning'
    RELEASED = 'released'
    APPLYING = 'applying'
    DONE = 'done'


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A hand-over that nova-compute has not been started after.

    :ivar source: backend that it comes from
    :ivar target: backend that it goes to
    """

    source: str
    target: str
    phase: Phase

    def find_next(self, source: str, target: str) -> Phase | None:
        """Return where a command with these two goes on; None: it cannot."""
        if (source, target) == (self.source, self.target):
            # Looking again at what is done does no harm.
            is_done = self.phase is Phase.DONE
            return Phase.APPLYING if is_done else self.phase
        if source == self.target and self.phase is Phase.DONE:
            return Phase.RELEASING
        if (source, target) == (self.target, self.source):
            # What was put into force nowhere need not be taken out.
            is_nowhere = self.phase is Phase.RELEASED
            return Phase.RELEASED if is_nowhere else Phase.RETURNING
        return None


class Journal:
    """The file of one ledger.

    :param ledger_path: the ledger, which is locked by whoever uses this
    """

    def __init__(self, ledger_path: str) -> None:
        # As with its lock: one ledger has one, by whatever path.
        self.path = os.path.realpath(ledger_path) + SUFFIX

    def read(self) -> Progress | None:
        """Return how far it got; None: there is none under way.

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


def check_none(ledger_path: str, enabled: Collection[str] = ()) -> None:
    """Refuse to run a host in the middle of a hand-over, or as before it.

    :param enabled: the plugins that the host runs with
    :raises InvalidConfiguration: one has begun and has not ended, or what
        it came from is enabled
    :raises LedgerError: its file makes no sense
    """
    found = Journal(ledger_path).read()
    if found is None:
        return
    if found.phase is not Phase.DONE:
        raise _refuse(
            found,
            f'a hand-over from {found.source} to {found.target} has begun and '
            f'has not ended. Run {COMMAND} --from {found.source} --to '
            f'{found.target} again to end it, or --from {found.target} --to '
            f'{found.source} to go back',
        )
    if found.source in enabled:
        raise _refuse(
            found,
            f'servers of this host were handed over from {found.source} to '
            f'{found.target}. Write {found.target} in its place in '
            'inventory_providers and enforcers, or run '
            f'{COMMAND} --from {found.target} --to {found.source} to go back',
        )


def forget(ledger_path: str, enabled: Collection[str]) -> None:
    """Forget one that is done: the host runs as it has to since then.

    What cannot be forgotten is only logged: the host runs.

    :param enabled: the plugins that the host runs with
    """
    journal = Journal(ledger_path)
    try:
        found = journal.read()
        if found and found.phase is Phase.DONE and found.target in enabled:
            journal.remove()
    except exception.LedgerError as err:
        LOG.warning(
            'A hand-over that is done stays on record: %(err)s', {'err': err}
        )


def _refuse(found: Progress, reason: str) -> exception.InvalidConfiguration:
    return exception.InvalidConfiguration(
        option='[ext_resources] enforcers',
        value=f'{found.source} or {found.target}',
        reason=reason,
    )
