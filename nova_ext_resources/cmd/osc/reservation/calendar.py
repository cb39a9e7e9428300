# SPDX-License-Identifier: Apache-2.0

"""``openstack extended reservation calendar``."""

import argparse
import pathlib
import shutil

from osc_lib import exceptions

from nova_ext_resources.cmd.osc.render import chart_svg
from nova_ext_resources.cmd.osc.render import chart_text
from nova_ext_resources.cmd.osc.reservation import store
from nova_ext_resources.cmd.osc.reservation import window_arguments


class ShowCalendar(store.StoreCommand):
    """Draw reservations over time, as a Gantt chart."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        window_arguments.add_window(parser)
        parser.add_argument(
            '--by',
            choices=('host', 'zone'),
            default='host',
            help='a row for each host, or for each zone (default: host)',
        )
        parser.add_argument(
            '--width',
            metavar='<number>',
            type=_width,
            help=f'characters in a line, {chart_text.MAX_WIDTH} at most '
            '(default: the width of the terminal)',
        )
        parser.add_argument(
            '--svg',
            metavar='<file>',
            help='write a picture to this file instead; an existing file is '
            'replaced',
        )

    def take_action(self, parsed_args: argparse.Namespace) -> None:
        reservations = self.open(parsed_args)
        during = window_arguments.read_window(parsed_args, reservations.now())
        chart = reservations.make_chart(
            during, by_zone=parsed_args.by == 'zone'
        )
        if parsed_args.svg is None:
            width = parsed_args.width or shutil.get_terminal_size().columns
            for line in chart_text.draw(chart, width):
                self.app.stdout.write(f'{line}\n')
            return
        try:
            pathlib.Path(parsed_args.svg).write_text(
                chart_svg.draw(chart), encoding='utf-8'
            )
        except OSError as err:
            raise exceptions.CommandError(
                f'The picture cannot be written: {err}. Name another file '
                'with --svg.'
            ) from err


def _width(argument: str) -> int:
    """Read the letters in a line, for argparse."""
    found = window_arguments.number(argument)
    if found > chart_text.MAX_WIDTH:
        raise argparse.ArgumentTypeError(
            f'{found} is more than {chart_text.MAX_WIDTH}'
        )
    return found
