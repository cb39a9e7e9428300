# SPDX-License-Identifier: Apache-2.0

"""Commands that work on the store of reservations."""

import argparse
from collections.abc import Iterable
import importlib
from typing import Any, TYPE_CHECKING, TypeAlias

from osc_lib.command import command

from nova_ext_resources.cmd.osc import config_files

if TYPE_CHECKING:
    from nova_ext_resources.reservation import api


#: Names and values of the fields of one thing that a command shows.
Fields: TypeAlias = tuple[tuple[str, ...], tuple[Any, ...]]

#: Columns, and a row for each of many.
Rows: TypeAlias = tuple[tuple[str, ...], Iterable[Iterable[Any]]]


def name_fields(columns: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the fields of one thing, of which many are rows."""
    return tuple(one.lower().replace(' ', '_') for one in columns)


class StoreCommand(command.Command):
    """Works on the store itself, so that it asks no keystone who calls.

    Whoever can read the configuration and write to the database may do all.
    """

    auth_required = False

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Return a parser with the arguments that all commands have."""
        parser = super().get_parser(prog_name)
        config_files.add_arguments(parser)
        self.add_arguments(parser)
        return parser

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Add those that only this command has: none by default."""

    def open(self, arguments: argparse.Namespace) -> 'api.Reservations':
        """Open the store that the arguments name.

        :raises CommandError: there is no configuration file, or it has a
            name that reservations do not have
        :raises ExtResourcesError: it cannot be opened
        """
        # The client imports all commands at each start, whatever it is asked;
        # what this one imports takes a second.
        loading = importlib.import_module(
            'nova_ext_resources.reservation.site.loading'
        )
        made: api.Reservations = loading.from_conf(
            config_files.read(arguments)
        )
        return made
