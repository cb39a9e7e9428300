# SPDX-License-Identifier: Apache-2.0

"""Units that vanished while a server held them: no other server gets them.

Such a device may have died, and come back for a while. That an operator has
looked at it, the host cannot know. So each has a file in a folder beside the
ledger, and is withheld as long as the file exists: the operator deletes it.
The name of the file says which unit it is; what is in it is for people.

A unit that this process has never seen is not withheld when it comes: after a
reboot, devices may appear later than nova-compute.
"""

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple, TypeAlias
import contextlib
import dataclasses
import os
import urllib.parse

from oslo_log import log as logging

from nova_ext_resources.claims import base
from nova_ext_resources import clocks
from nova_ext_resources.host.inventory import discovery
from nova_ext_resources.host.inventory import view
from nova_ext_resources.host.reconcile.rules import units as units_mod
from nova_ext_resources import log_on_change
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_provider

LOG = logging.getLogger(__name__)

#: Behind the name of the ledger.
SUFFIX = '.withheld'

#: What stays as it is in the name of a file.
_SAFE = ':.'


class QuarantinedUnit(NamedTuple):
    """One unit.

    :ivar rp_key: key of its provider
    """

    rp_key: str
    resource_class: str
    name: str

    def make_file_name(self) -> str:
        return ','.join(urllib.parse.quote(one, safe=_SAFE) for one in self)

    def __str__(self) -> str:
        return f'{self.rp_key} {self.resource_class} {self.name}'


#: Unit -> uuid of the consumer that holds it.
Lost: TypeAlias = Mapping[QuarantinedUnit, str]


class Quarantine:
    """The folder of one ledger. Used by one thread at a time.

    :param ledger_path: the ledger, which the caller has locked
    """

    def __init__(
        self,
        ledger_path: str,
        host: str,
        trackers: Mapping[str, base.Tracker],
    ) -> None:
        self.path = os.path.realpath(ledger_path) + SUFFIX
        self._host = host
        self._trackers = trackers
        #: What the last round withheld.
        self._known: frozenset[QuarantinedUnit] = frozenset()
        #: Of these, what has no file yet.
        self._unsaved: dict[QuarantinedUnit, str] = {}
        #: What was lost in the last round.
        self._lost: Lost = {}
        #: Key -> the provider as it was found last.
        self._seen: dict[str, host_provider.HostProvider] = {}
        self._logged = log_on_change.LogOnChange()

    def apply(
        self,
        found: discovery.DiscoveredResources,
        entries: Iterable[assignment.Entry],
    ) -> discovery.DiscoveredResources:
        """Return what was found, without the units that are withheld.

        Does I/O, and never raises for it.

        :param entries: what servers hold
        """
        lost = self._note_lost(found, [*entries])
        unsaved = self._save()
        known, unread = self._read()
        # The same provider may have them under another class now.
        moved = {
            unit._replace(resource_class=name)
            for one in found.providers
            for name in one.inventories
            for unit in lost
            if unit.rp_key == one.key
        }
        self._report(known, unsaved or unread)
        return dataclasses.replace(
            found,
            providers=withhold(found.providers, known | moved, self._trackers),
            problems=(
                *found.problems,
                *(self._explain(unit) for unit in sorted(known - lost.keys())),
            ),
        )

    def _note_lost(
        self,
        found: discovery.DiscoveredResources,
        entries: Sequence[assignment.Entry],
    ) -> Lost:
        """Return what is lost now; what was there before is to be saved."""
        lost, earlier = (
            find_lost(some, entries, self._trackers, found.is_complete)
            for some in (found.providers, self._seen.values())
        )
        self._unsaved.update(
            (unit, consumer)
            for unit, consumer in lost.items()
            if unit.rp_key in self._seen
            and unit.resource_class in self._seen[unit.rp_key].inventories
            and unit not in earlier
            and unit not in self._lost
        )
        # What could not be read may be reported as servers hold it.
        self._seen.update(
            (one.key, one)
            for one in found.providers
            if one.key not in found.left_out
        )
        self._lost = lost
        return lost

    def _save(self) -> str:
        """Write the files that are missing; return why one could not be."""
        for unit, consumer in list(self._unsaved.items()):
            try:
                os.makedirs(self.path, mode=0o750, exist_ok=True)
                self._write(unit, consumer)
            except OSError as err:
                return str(err)
            del self._unsaved[unit]
        return ''

    def _write(self, unit: QuarantinedUnit, consumer: str) -> None:
        """Write the file of a unit, synced; one that is there stays.

        :raises OSError: it could not be written
        """
        at = clocks.MACHINE.read().isoformat(timespec='seconds')
        path = os.path.join(self.path, unit.make_file_name())
        with contextlib.suppress(FileExistsError):
            with open(path, 'x', encoding='utf-8') as file:
                file.write(
                    f'{unit.name} of {unit.rp_key} vanished at {at} while '
                    f'server {consumer} held the device. No server gets the '
                    'device. Delete this file when you have checked it.\n'
                )
                file.flush()
                os.fsync(file.fileno())

    def _read(self) -> tuple[frozenset[QuarantinedUnit], str]:
        """Return what is withheld, and why the folder could not be read."""
        try:
            names = os.listdir(self.path)
        except FileNotFoundError:
            names = []
        except OSError as err:
            return self._known | self._unsaved.keys(), str(err)
        units = set(self._unsaved)
        for name in names:
            parts = [urllib.parse.unquote(one) for one in name.split(',')]
            # Others are no files of ours.
            with contextlib.suppress(TypeError):
                units.add(QuarantinedUnit(*parts))
        return frozenset(units), ''

    def _report(self, known: frozenset[QuarantinedUnit], failure: str) -> None:
        if self._logged.note(failure):
            LOG.error(
                'Host %(host)s: cannot use the folder of withheld devices; '
                'nova-compute forgets the devices when it stops: %(failure)s',
                {'host': self._host, 'failure': failure},
            )
        for unit in sorted(known - self._known):
            LOG.error(
                'Host %(host)s: %(unit)s is withheld: no server gets this '
                'device until the file of the device in %(path)s is deleted',
                {'host': self._host, 'unit': unit, 'path': self.path},
            )
        for unit in sorted(self._known - known):
            LOG.info(
                'Host %(host)s: %(unit)s is no longer withheld',
                {'host': self._host, 'unit': unit},
            )
        self._known = known

    def _explain(self, unit: QuarantinedUnit) -> alarm.Problem:
        failure = self._logged.problems.get('')
        after = (
            f' The folder cannot be used ({failure}), so nova-compute forgets '
            'the withheld devices when it stops. Correct the folder first.'
        )
        return alarm.Problem(
            alarm=alarm.UNIT_WITHHELD,
            subject=str(unit),
            text=f'{unit.name} of {unit.rp_key} vanished while a server held '
            'it. No server gets this device now. Find out why the device '
            'vanished. When the device can be used again, or is gone for '
            'good, delete '
            f'{os.path.join(self.path, unit.make_file_name())}.'
            f'{after if failure else ""}',
        )


def find_lost(
    found: Iterable[host_provider.HostProvider],
    entries: Iterable[assignment.Entry],
    trackers: Mapping[str, base.Tracker],
    is_complete: bool,
) -> Lost:
    """Return the units that servers hold and the host does not have.

    Which of them are withheld does not matter.

    :param is_complete: whether these are all providers that the host has
    """
    there = {
        (one.key, name): units_mod.list_names(
            one.units.get(name, {}), trackers
        )
        for one in found
        for name in one.inventories
    }
    return {
        QuarantinedUnit(*place, name): entry.consumer_uuid
        for entry in entries
        for one in entry.assignments
        if (place := (one.rp_key, one.resource_class)) in there or is_complete
        for name in units_mod.list_names(one.units, trackers)
        - there.get(place, frozenset())
    }


def withhold(
    found: Iterable[host_provider.HostProvider],
    units: Set[QuarantinedUnit],
    trackers: Mapping[str, base.Tracker],
) -> tuple[host_provider.HostProvider, ...]:
    """Return providers whose facts are without these units."""
    named: dict[tuple[str, str], set[str]] = {}
    for unit in units:
        place = unit.rp_key, unit.resource_class
        named.setdefault(place, set()).add(unit.name)
    return tuple(
        dataclasses.replace(
            one,
            units={
                **one.units,
                **{
                    name: _find_tracker(one, name, trackers).withhold(
                        one.units.get(name, {}), named[one.key, name]
                    )
                    for name in one.inventories
                    if (one.key, name) in named
                },
            },
        )
        for one in found
    )


def _find_tracker(
    one: host_provider.HostProvider,
    resource_class: str,
    trackers: Mapping[str, base.Tracker],
) -> base.Tracker:
    name = one.trackers.get(resource_class, view.DEFAULT_TRACKER)
    return trackers[name]
