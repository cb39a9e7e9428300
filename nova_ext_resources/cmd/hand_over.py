# SPDX-License-Identifier: Apache-2.0

"""``nova-ext-resources-hand-over``: from one backend to another.

Run while nova-compute of the host is stopped, as the user that nova-compute
runs as. Servers keep running.
"""

import argparse
from collections.abc import Sequence
import contextlib
import os
import sys

from oslo_config import cfg

from nova_ext_resources.conf import reader
from nova_ext_resources.conf import state
from nova_ext_resources.drivers import base
from nova_ext_resources import exception
from nova_ext_resources.host.handover import journal
from nova_ext_resources.host.handover import run
from nova_ext_resources.host.ledger import ledger as ledger_mod
from nova_ext_resources.host.service import paths as files
from nova_ext_resources import plugins

_DESCRIPTION = """\
Move the resources of a host's servers from one backend to another, while the
servers run and nova-compute is stopped. The command may be killed and run
again at any time. To go back, exchange --from and --to."""

_UNCHECKED = """\
skip the check that the new backend can hold all resources, because the new
backend cannot run beside the old backend"""

_GONE = """\
release nothing at the old backend, because it will never answer again.
WARNING: first make sure that no settings of the old backend are left in the
kernel: stop RMD and remove its groups (rmdir /sys/fs/resctrl/COS[1-9]*), or
remove the groups nova-* of resctrl. Groups that are left keep their ways from
all servers, and servers may have less than their allocations"""


def make_parser() -> argparse.ArgumentParser:
    """Declare the arguments."""
    names = sorted(
        set(plugins.list_names(plugins.INVENTORY_PROVIDERS))
        & set(plugins.list_names(plugins.ENFORCERS))
    )
    parser = argparse.ArgumentParser(
        prog=journal.COMMAND, description=_DESCRIPTION
    )
    add = parser.add_argument
    for option, what in (('file', 'a file'), ('dir', 'a folder of files')):
        add(
            f'--config-{option}',
            action='append',
            default=[],
            help=f'{what} with options of nova-compute; may be repeated',
        )
    add('--host', required=True, help='[DEFAULT] host of nova-compute')
    add('--from', dest='source', required=True, choices=names)
    add('--to', dest='target', required=True, choices=names)
    add('--ledger', help='path of the ledger, if the options do not name one')
    add('--dry-run', action='store_true', help='check, and change nothing')
    add('--unchecked', action='store_true', help=_UNCHECKED)
    add(run.SOURCE_IS_GONE, action='store_true', help=_GONE)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Hand over; return the exit status."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.source == options.target:
        parser.error('--from and --to are the same')
    try:
        with exception.naming_host(options.host):
            hand_over(options)
    except exception.ExtResourcesError as err:
        print(err, file=sys.stderr)
        return 1
    return 0


def hand_over(options: argparse.Namespace) -> None:
    """Carry out what the arguments say.

    :raises ExtResourcesError: the hand-over has stopped; contains the state
    """
    files = options.config_file, options.config_dir
    conf = reader.read_conf(*files, options.host)
    # oslo.privsep, which writes to resctrl, reads the global options.
    reader.parse(cfg.CONF, *files)
    _check_host(conf, options.host)
    trackers = plugins.load_trackers()
    tests = plugins.load_claim_tests(trackers, conf.ext_resources.claim_tests)
    path = _find_ledger(conf, options)
    _check_direction(path, conf, options.source)
    with contextlib.closing(_open_ledger(path)) as ledger:
        made = run.HandOver(
            host=options.host,
            source=_load(conf, options, options.source, dict),
            target=_load(conf, options, options.target, ledger.list_entries),
            ledger=ledger,
            trackers=trackers,
            tests=tuple(tests.values()),
            is_source_gone=options.source_is_gone,
            say=_say,
        )
        if options.dry_run:
            made.check()
            _say('The hand-over seems possible. Nothing was changed.')
            return
        made.run(is_checked=not options.unchecked)
    _say(
        f'Done. Write {options.target} in place of {options.source} in '
        '[ext_resources] inventory_providers and enforcers, then start '
        f'nova-compute. nova-compute no longer starts with {options.source}.'
    )


def _say(line: str) -> None:
    """Print; a closed standard output does not stop the hand-over."""
    try:
        print(line, flush=True)
    except OSError:
        # Python itself tries again at its end, and would fail then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_host(conf: cfg.ConfigOpts, host: str) -> None:
    """Make sure that the options are those of this host.

    :raises InvalidConfiguration: they are those of another host
    """
    conf.register_opt(cfg.StrOpt('host', default=host))
    # Several computes may share one file, which then names none of them.
    if conf.host != host and not conf.ext_resources.host_config_dir:
        raise exception.InvalidConfiguration(
            option='--host',
            value=host,
            reason='the configuration files belong to another host: '
            f'[DEFAULT] host is {conf.host}; write --host {conf.host}, or '
            f'name the files of {host} with --config-file',
        )


def _check_direction(path: str, conf: cfg.ConfigOpts, source: str) -> None:
    """Make sure that the host runs with the backend that it leaves.

    Once a hand-over has begun, the operator may have written either name.

    :raises InvalidConfiguration: the host runs with another backend
    """
    enabled = conf.ext_resources.enforcers
    if source not in enabled and journal.HandoverJournal(path).read() is None:
        raise exception.InvalidConfiguration(
            option='--from',
            value=source,
            reason='this host runs with [ext_resources] enforcers = '
            f'{", ".join(enabled) or "(none)"}, according to the '
            'configuration files; name all configuration files with '
            '--config-file and --config-dir, and the present backend with '
            '--from',
        )


def _load(
    conf: cfg.ConfigOpts,
    options: argparse.Namespace,
    name: str,
    entries: base.EntriesReader,
) -> run.Backend:
    """Load a backend as nova-compute does, beside the other plugins.

    :raises ExtResourcesError: nova-compute cannot start with it
    """
    enabled, two = conf.ext_resources, (options.source, options.target)
    inventories, enforcers = plugins.load_for_host(
        conf,
        options.host,
        entries,
        *(
            [name, *(one for one in names if one not in two)]
            for names in (enabled.inventory_providers, enabled.enforcers)
        ),
    )
    return run.Backend(
        name=name, inventory=inventories[name], enforcer=enforcers[name]
    )


def _find_ledger(conf: cfg.ConfigOpts, options: argparse.Namespace) -> str:
    """Return the ledger's file, which must exist and belong to this user.

    :raises LedgerError: it is not there, or nova-compute could not write to
        it afterwards
    """
    path: str = options.ledger or files.find_ledger_path(
        conf.ext_resources, state.find_folder(conf), options.host
    )
    reason = ''
    if not os.path.isfile(path):
        reason = (
            'there is no such file; name the path with --ledger, as in the '
            'log of nova-compute'
        )
    elif os.stat(path).st_uid != os.geteuid():
        reason = (
            'the file belongs to another user, who could not write to the '
            'file afterwards; run this command as the user that nova-compute '
            'runs as'
        )
    if reason:
        raise exception.LedgerError(path=path, reason=reason)
    return path


def _open_ledger(path: str) -> ledger_mod.Ledger:
    """Open the ledger.

    :raises LedgerError: it cannot be opened; most likely nova-compute runs
    """
    try:
        return ledger_mod.Ledger(path)
    except exception.LedgerInUse as err:
        reason = (
            'nova-compute of this host or another hand-over is running; stop '
            'nova-compute first, servers keep running'
        )
        raise exception.LedgerInUse(path=path, reason=reason) from err


if __name__ == '__main__':
    sys.exit(main())
