# SPDX-License-Identifier: Apache-2.0

"""``openstack extended resource audit``."""

import argparse
from collections.abc import Iterable
from typing import Any

from osc_lib.command import command
from osc_lib import exceptions

from nova_ext_resources.cmd.osc.audit import journal as journal_mod
from nova_ext_resources.cmd.osc.audit import repair as repair_mod
from nova_ext_resources.cmd.osc.audit import sources
from nova_ext_resources.cmd.osc import cloud as cloud_command
from nova_ext_resources import exception
from nova_ext_resources.inspection.audit import cloud as cloud_mod
from nova_ext_resources.inspection.audit import compare
from nova_ext_resources.inspection.audit import finding

_COLUMNS = (
    'Kind',
    'Host',
    'Provider',
    'Resource Class',
    'Amount',
    'Server',
    'Consumer',
    'What To Do',
)

_FOUND = 1
_FAILED = 2


class Audit(cloud_command.CloudCommand, command.Lister):
    """Find wrong allocations in placement, in the whole cloud.

    The command changes nothing without --repair. Exit status: 0, no allocation
    is wrong, or all are repaired; 1, an allocation is wrong; 2, the cloud
    could not be read, or the journal could not be written.
    """

    status = 0

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            '--in-progress',
            action='store_true',
            help='also list allocations that Nova may be changing now, which '
            'are not wrong yet',
        )
        parser.add_argument(
            '--repair',
            action='store_true',
            help='delete leftovers: allocations of consumers that Nova does '
            'not know, of migrations that have ended, and of servers that are '
            'on another host; and allocate the resources that a server lacks '
            'on its host, if they fit and only one provider can have them. '
            'Needs --journal',
        )
        parser.add_argument(
            '--journal',
            metavar='<file>',
            help='with --repair: add a line of JSON to this file before and '
            'after each change',
        )

    def run(self, parsed_args: argparse.Namespace) -> int:
        try:
            super().run(parsed_args)
        except (exception.ExtResourcesError, exceptions.CommandError) as err:
            self.log.error('%s', err)
            return _FAILED
        return self.status

    def take_action(
        self, parsed_args: argparse.Namespace
    ) -> tuple[tuple[str, ...], Iterable[tuple[Any, ...]]]:
        if parsed_args.repair and not parsed_args.journal:
            raise exceptions.CommandError(
                '--repair needs --journal <file>, in which each change is '
                'recorded so that it can be undone'
            )
        with cloud_command.asking():
            cloud, found = self._find()
        if parsed_args.repair:
            with journal_mod.AuditJournal(parsed_args.journal) as journal:
                repair = repair_mod.AllocationRepair(self.placement, journal)
                found = repair.run(found, cloud.fresh)
        wrong = [one for one in found if one.remedy is not finding.Remedy.WAIT]
        if any(one.remedy is not finding.Remedy.DONE for one in wrong):
            self.status = _FOUND
        if not parsed_args.in_progress:
            self._note_waiting(len(found) - len(wrong))
            found = wrong
        return _COLUMNS, [_make_row(cloud, one) for one in found]

    def _find(self) -> tuple[cloud_mod.AuditedCloud, list[finding.Finding]]:
        """Return the cloud, and what is wrong in two readings."""
        reader = sources.AuditReader(self.placement, self.nova)
        cloud = reader.read()
        found = compare.compare(cloud)
        if not found:
            return cloud, []
        cloud = reader.read_again(cloud, found)
        return cloud, [*compare.confirm(found, compare.compare(cloud))]

    def _note_waiting(self, number: int) -> None:
        if number:
            self.log.warning(
                'Allocations left out, because Nova may be changing them now: '
                '%d. To list them, use --in-progress',
                number,
            )


def _make_row(
    cloud: cloud_mod.AuditedCloud, one: finding.Finding
) -> tuple[str | int, ...]:
    server = cloud.servers.get(one.server)
    return (
        one.kind.value,
        one.host,
        one.provider,
        one.resource_class,
        one.amount,
        server.name if server else '',
        one.consumer,
        one.text,
    )
