# SPDX-License-Identifier: Apache-2.0

"""``openstack extended reservation quota set, list, delete``."""

import argparse
from typing import Any

from osc_lib.command import command

from nova_ext_resources.cmd.osc.reservation import store
from nova_ext_resources.cmd.osc.reservation import window_arguments
from nova_ext_resources.reservation import quota as quota_mod

_COLUMNS = ('Project', 'Resource Class', 'Unit Hours', 'Days', 'Used', 'Left')


def _add_names(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        'project',
        metavar='<project>',
        type=window_arguments.text,
        help='id of the project',
    )
    parser.add_argument(
        'resource_class',
        metavar='<resource-class>',
        type=window_arguments.text,
        help='resource class, such as VCPU',
    )


def _make_row(use: quota_mod.Use) -> tuple[Any, ...]:
    quota = use.quota
    return (
        quota.project,
        quota.resource_class,
        quota.unit_hours,
        quota.days,
        quota_mod.count_hours(use.used, is_up=True),
        quota_mod.count_hours(use.left),
    )


class SetQuota(store.StoreCommand, command.ShowOne):
    """Limit how many unit-hours a project may reserve.

    One unit that is reserved for one hour is a unit-hour. Existing
    reservations stay, even if they exceed the new quota.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_names(parser)
        parser.add_argument(
            'unit_hours',
            metavar='<unit-hours>',
            type=_number,
            help='unit-hours of the quota; 0 allows no reservation',
        )
        parser.add_argument(
            '--days',
            metavar='<number>',
            type=_number,
            default=quota_mod.DEFAULT_DAYS,
            help='days for which reservations count after their end, and for '
            'which reservations without an end count (default: '
            f'{quota_mod.DEFAULT_DAYS})',
        )

    def take_action(self, parsed_args: argparse.Namespace) -> store.Fields:
        reservations = self.open(parsed_args)
        reservations.check_project(parsed_args.project)
        use = reservations.quotas.set_quota(
            parsed_args.project,
            parsed_args.resource_class,
            parsed_args.unit_hours,
            days=parsed_args.days,
        )
        return store.name_fields(_COLUMNS), _make_row(use)


class ListQuotas(store.StoreCommand, command.Lister):
    """List the quotas of projects, and the used part of each quota."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        window_arguments.add_project(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> store.Rows:
        found = self.open(parsed_args).quotas.list_quotas(parsed_args.project)
        return _COLUMNS, map(_make_row, found)


class DeleteQuota(store.StoreCommand):
    """Remove the quota of a project for a resource class."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        _add_names(parser)

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        self.open(parsed_args).quotas.delete_quota(
            parsed_args.project, parsed_args.resource_class
        )


def _number(text: str) -> int:
    """Read a whole number from 0 on, for argparse."""
    return 0 if text == '0' else window_arguments.number(text)
