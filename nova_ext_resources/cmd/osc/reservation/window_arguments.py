# SPDX-License-Identifier: Apache-2.0

"""The arguments that name a time, a project, and what servers need."""

import argparse
from typing import Any

from osc_lib.cli import parseractions
from osc_lib import exceptions

from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import times

TIMES = (
    'now, a duration from now such as +2h, or a date with its time zone such '
    'as 2030-01-31T08:00Z'
)
DURATIONS = 'such as 90m, 2h30m or 7d'

#: All amounts of placement have fewer.
_DIGITS = 18


def add_window(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of a window that begins now and has an end."""
    parser.add_argument(
        '--from',
        dest='begin',
        metavar='<time>',
        default='now',
        help=f'begin of the period to show: {TIMES} (default: now)',
    )
    end = parser.add_mutually_exclusive_group()
    end.add_argument('--until', metavar='<time>', help='end of the period')
    end.add_argument(
        '--duration',
        metavar='<duration>',
        default='24h',
        help=f'length of the period, {DURATIONS} (default: 24h)',
    )


def read_window(arguments: argparse.Namespace, now: int) -> interval.Interval:
    """Return the window that the arguments name.

    :raises CommandError: they make no sense
    """
    try:
        start = times.parse_time(arguments.begin, now)
        if arguments.until is not None:
            end = times.parse_time(arguments.until, now)
        else:
            end = start + times.parse_seconds(arguments.duration)
        return interval.Interval(start, end)
    except ValueError as err:
        raise exceptions.CommandError(f'--from, --until: {err}') from err


def seconds(text: str) -> int:
    """Read a duration, for argparse."""
    try:
        return times.parse_seconds(text)
    except ValueError as err:
        raise argparse.ArgumentTypeError(str(err)) from err


def text(argument: str) -> str:
    """Read what any database can be asked for, for argparse."""
    try:
        argument.encode()
    except UnicodeEncodeError as err:
        raise argparse.ArgumentTypeError(
            f'{argument!r} is no text in the encoding of this terminal'
        ) from err
    return argument


def number(text: str) -> int:
    """Read a whole number from 1 on, for argparse."""
    if not _is_number(text):
        raise argparse.ArgumentTypeError(
            f'{text!r} is not a whole number from 1 on, of {_DIGITS} digits '
            'at most'
        )
    return int(text)


def _is_number(text: str) -> bool:
    # Python reads no number of very many digits.
    return text.isdecimal() and len(text) <= _DIGITS and int(text) >= 1


def add_servers(parser: argparse.ArgumentParser, *, is_required: bool) -> None:
    """Add the arguments that say what one server needs."""
    what = parser.add_mutually_exclusive_group(required=is_required)
    what.add_argument(
        '--flavor',
        metavar='<flavor>',
        help='name or id of the flavor of the servers; read from Nova',
    )
    what.add_argument(
        '--resource',
        metavar='<class>=<amount>',
        dest='resources',
        action=AmountAction,
        help='in place of a flavor: what each server needs, such as VCPU=4; '
        'repeat for each resource class',
    )
    parser.add_argument(
        '--property',
        metavar='<key>=<value>',
        dest='extra_specs',
        action=parseractions.KeyValueAction,
        help='with --resource: an extra spec that a flavor would have, such '
        'as trait:HW_CPU_X86_AVX512F=required; may be repeated',
    )


def add_project(parser: argparse.ArgumentParser) -> None:
    """Add the argument that leaves out what other projects have."""
    parser.add_argument(
        '--project',
        metavar='<id>',
        type=text,
        help='only those of this project',
    )


class AmountAction(argparse.Action):
    """Collects ``CLASS=AMOUNT``."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        name, _equals, amount = str(values).partition('=')
        if not name or not _is_number(amount):
            parser.error(
                f'{option_string} {values}: write a resource class and a '
                f'whole number from 1 on, of {_DIGITS} digits at most, such '
                'as VCPU=4'
            )
        found = dict(getattr(namespace, self.dest) or {})
        if name in found:
            parser.error(f'{option_string} {values}: {name} is named twice')
        setattr(namespace, self.dest, {**found, name: int(amount)})


def read_servers(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the part of an order that says what one server needs."""
    names = ('flavor', 'resources', 'extra_specs')
    return {
        name: getattr(arguments, name)
        for name in names
        if getattr(arguments, name) is not None
    }
