# SPDX-License-Identifier: Apache-2.0

"""The progress of a hand-over: a file beside the ledger.

While the file exists, nova-compute starts only when the hand-over is done, and
only with the new backend. Otherwise it would apply the settings of servers at
one backend while they are still applied at the other.
"""

from collections.abc import Collection, Iterator
import contextlib
import dataclasses
import enum
import json
import os
import pathlib

from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.objects.documents import foreign_data

LOG = logging.getLogger(__name__)

SUFFIX = '.hand-over'

COMMAND = 'nova-ext-resources-hand-over'


class Phase(enum.StrEnum):
    """Where settings of servers may be applied.

    ``RELEASING``: at the source only.

    ``RELEASED``: at neither backend.

    ``APPLYING``: at the target only.

    ``DONE``: at the target, for all servers; nova-compute has not been started
    with the target yet.
    """

    RELEASING = 'releasing'
    RELEASED = 'released'
    APPLYING = 'applying'
    DONE = 'done'


#: The phase in which a hand-over goes back; others stay as they are.
_BACK = {Phase.RELEASING: Phase.APPLYING, Phase.APPLYING: Phase.RELEASING}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A hand-over after which nova-compute has not been started yet.

    :ivar source: the backend that servers leave
    :ivar target: the backend that servers move to
    """

    source: str
    target: str
    phase: Phase

    def find_next(self, source: str, target: str) -> Phase | None:
        """Return the phase in which a command continues; None: it cannot."""
        if source == self.target and self.phase is Phase.DONE:
            return Phase.RELEASING
        if (source, target) == (self.target, self.source):
            return _BACK.get(self.phase, self.phase)
        if (source, target) == (self.source, self.target):
            # To check again what is done changes nothing.
            return self.phase
        return None


class HandoverJournal:
    """The file of one ledger.

    :param ledger_path: the ledger, which the caller has locked
    """

    def __init__(self, ledger_path: str) -> None:
        # A ledger has one journal, whatever path leads to the ledger.
        self.path = os.path.realpath(ledger_path) + SUFFIX

    def read(self) -> Progress | None:
        """Return the progress; None: no hand-over has begun.

        :raises LedgerError: the file is damaged or cannot be read
        """
        try:
            with open(self.path, encoding='utf-8') as file:
                data = foreign_data.load_json(file.read())
            return Progress(
                source=str(data['source']),
                target=str(data['target']),
                phase=Phase(data['phase']),
            )
        except FileNotFoundError:
            return None
        except (OSError, *foreign_data.UNREADABLE) as err:
            reason = (
                f'the file cannot be read ({err}). A hand-over wrote the '
                f'file; move the file away, and run {COMMAND} again with the '
                'same --from and --to'
            )
            raise exception.LedgerError(path=self.path, reason=reason) from err

    def write(self, progress: Progress) -> None:
        """Write the progress, synced, before the step that it describes.

        :raises LedgerError: the file could not be written
        """
        temporary = f'{self.path}.new'
        with self._synced():
            with open(temporary, 'w', encoding='utf-8') as file:
                json.dump(dataclasses.asdict(progress), file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self.path)

    def remove(self) -> None:
        """Remove the file; success when there is none.

        :raises LedgerError: the file could not be removed
        """
        with self._synced():
            pathlib.Path(self.path).unlink(missing_ok=True)

    @contextlib.contextmanager
    def _synced(self) -> Iterator[None]:
        """Sync the folder after the file was replaced or removed."""
        try:
            yield
            folder = os.open(os.path.dirname(self.path), os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as err:
            reason = (
                f'the file cannot be written ({err}); its folder must be '
                'writable for the user of nova-compute, and must have free '
                'space'
            )
            raise exception.LedgerError(path=self.path, reason=reason) from err


def check_none(ledger_path: str, enabled: Collection[str] = ()) -> None:
    """Refuse to start a host during a hand-over, or as it was before one.

    :param enabled: the plugins that the host runs with
    :raises InvalidConfiguration: a hand-over is not complete, or the backend
        that servers have left is enabled
    :raises LedgerError: the file is damaged or cannot be read
    """
    found = HandoverJournal(ledger_path).read()
    if found is None:
        return
    source, target = found.source, found.target
    back = f'{COMMAND} --from {target} --to {source} to go back'
    if found.phase is not Phase.DONE:
        reason = (
            f'a hand-over from {source} to {target} has begun and is not '
            f'complete. Run {COMMAND} --from {source} --to {target} again to '
            f'complete it, or {back}'
        )
    elif source in enabled:
        reason = (
            f'servers of this host were handed over from {source} to '
            f'{target}. Replace {source} by {target} in inventory_providers '
            f'and enforcers, or run {back}'
        )
    else:
        return
    raise exception.InvalidConfiguration(
        option='[ext_resources] enforcers',
        value=f'{source} or {target}',
        reason=reason,
    )


def forget(ledger_path: str, enabled: Collection[str]) -> None:
    """Remove the journal of a completed hand-over, because the host runs.

    A failure is only logged.

    :param enabled: the plugins that the host runs with
    """
    journal = HandoverJournal(ledger_path)
    try:
        found = journal.read()
        if found and found.phase is Phase.DONE and found.target in enabled:
            journal.remove()
    except exception.LedgerError as err:
        LOG.warning(
            'Could not remove the journal of a completed hand-over; this will '
            'be retried at the next start of nova-compute: %(err)s',
            {'err': err},
        )
