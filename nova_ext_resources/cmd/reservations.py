# SPDX-License-Identifier: Apache-2.0

"""``nova-ext-resources-reservations``: the manager of reservations.

Carries out what time brings to them. Run as a user who can read Nova's
configuration and write to the database of the reservations.
"""

import argparse
from collections.abc import Sequence
import signal
import sys

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.cmd import log
from nova_ext_resources.conf import reader
from nova_ext_resources.conf import reservation
from nova_ext_resources import exception
from nova_ext_resources.reservation.manager import loop
from nova_ext_resources.reservation.manager import signals
from nova_ext_resources.reservation.manager import systemd
from nova_ext_resources.reservation.manager import turn as turn_mod
from nova_ext_resources.reservation.site import loading
from nova_ext_resources.reservation.store import schema

LOG = logging.getLogger(__name__)

_PROGRAM = 'nova-ext-resources-reservations'

_DESCRIPTION = """\
Carry out the changes of reservations over time: record their starts and ends,
move reservations that have lost their hosts, release capacity that was not
used in time, and delete old reservations. THIS SHELVES AND DELETES SERVERS of
all projects: servers of ending reservations, if the reservation asks for it;
servers that borrow promised capacity, as their flavors say; and, with
blocking_seconds, servers that wait for a reservation, as their metadata say.
Any number of these programs may run at once, on any machines, and may be
killed at any time. SIGHUP reads the configuration again, SIGTERM ends the
program after the current pass and notifications."""

#: Seconds at the end for what is under way beside the passes.
_LAST_SECONDS = 30.0

_EXIT_STATUS = """\
Exit status: 0, all is well; 1, the configuration cannot be used or, with
--once, something failed and should be tried again."""


def make_parser() -> argparse.ArgumentParser:
    """Declare the arguments."""
    parser = argparse.ArgumentParser(
        prog=_PROGRAM, description=_DESCRIPTION, epilog=_EXIT_STATUS
    )
    for option, what in (('file', 'a file'), ('dir', 'a folder of files')):
        parser.add_argument(
            f'--config-{option}',
            action='append',
            help=f'{what} with options of Nova, for the database of the '
            'reservations and the credentials for placement; may be repeated '
            '(default: where Nova itself looks, such as /etc/nova/nova.conf)',
        )
    parser.add_argument(
        '--once',
        action='store_true',
        help='make one pass, and end. The clock of this machine is trusted '
        'at once',
    )
    parser.add_argument(
        '--upgrade-tables',
        action='store_true',
        help='create the tables, or upgrade the tables of an older release, '
        'and end. First stop all programs that use the tables, and copy the '
        'database',
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until a signal comes; return the exit status."""
    options = make_parser().parse_args(arguments)
    signals.block()
    try:
        conf = read_conf(options)
        if options.upgrade_tables:
            return _upgrade(conf)
        turn = loading.make_turn(conf, is_once=options.once)
        log.set_up(conf, 'nova-ext-resources')
    except exception.ExtResourcesError as err:
        print(err, file=sys.stderr)
        return 1
    if options.once:
        return _run_once(turn)
    _run(options, conf, turn)
    return 0


def read_conf(options: argparse.Namespace) -> cfg.ConfigOpts:
    """Read the configuration that the arguments name.

    :raises InvalidConfiguration: there is none, or it cannot be used
    """
    files, folders = options.config_file, options.config_dir
    if files is None and folders is None:
        files = cfg.find_config_files('nova')
        folders = cfg.find_config_dirs('nova')
        if not files and not folders:
            raise _refuse(None, 'there is no nova.conf where Nova looks')
    files, folders = files or [], folders or []
    conf = cfg.ConfigOpts()
    logging.register_options(conf)
    reader.parse(conf, files, folders)
    if problems := reservation.list_misspelt(conf):
        raise _refuse(', '.join(files), '; '.join(problems))
    return conf


def _refuse(value: str | None, reason: str) -> exception.InvalidConfiguration:
    return exception.InvalidConfiguration(
        option='--config-file', value=value, reason=reason
    )


def _upgrade(conf: cfg.ConfigOpts) -> int:
    """Bring the tables up to date; return the exit status.

    :raises ExtResourcesError: they are not, and nothing was changed where the
        database can undo it
    """
    url = reservation.find_connection(conf)
    schema.upgrade(loading.open_database(url))
    print('The tables of the reservations are up to date.')
    return 0


def _run_once(turn: turn_mod.Turn) -> int:
    try:
        return 0 if turn.run() else 1
    except exception.ExtResourcesError as err:
        LOG.error(
            'The pass failed; run the command again: %(err)s', {'err': err}
        )
        return 1


def _run(
    options: argparse.Namespace, conf: cfg.ConfigOpts, turn: turn_mod.Turn
) -> None:
    """Run until a signal comes that ends this."""
    LOG.info('The manager of reservations has started')
    while True:
        systemd.notify(systemd.READY)
        interval = conf[reservation.GROUP.name].interval
        number = loop.run(turn.run, interval)
        if number not in signals.RELOAD:
            break
        try:
            changed = read_conf(options)
            another = _make_another(changed)
        except exception.ExtResourcesError as err:
            LOG.error(
                'The new configuration cannot be used, and the former one '
                'stays in effect: %(err)s',
                {'err': err},
            )
            continue
        turn.close()
        conf, turn = changed, another
        LOG.info('The configuration was read again')
    systemd.notify(systemd.STOPPING)
    turn.close(_LAST_SECONDS)
    LOG.info('Ended by %(signal)s', {'signal': signal.Signals(number).name})


def _make_another(conf: cfg.ConfigOpts) -> turn_mod.Turn:
    """Make what goes on with other options, and log to where these say.

    :raises ExtResourcesError: they cannot be used
    """
    another = loading.make_turn(conf)
    try:
        log.set_up(conf, 'nova-ext-resources')
    except exception.InvalidConfiguration:
        another.close()
        raise
    return another


if __name__ == '__main__':
    sys.exit(main())
