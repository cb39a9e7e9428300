# SPDX-License-Identifier: Apache-2.0

"""``nova-ext-resources-hand-over``: from one backend to another.

Run while nova-compute of the host is stopped, as the user that it runs as.
Servers run on.
"""

import argparse
from collections.abc import Sequence
import os
import sys

from oslo_config import cfg

from nova_ext_resources.conf import reader
from nova_ext_resources.drivers import base as drivers_base
from nova_ext_resources import exception
from nova_ext_resources.host.handover import journal
from nova_ext_resources.host.handover import messages
from nova_ext_resources.host.handover import run
from nova_ext_resources.host import ledger as ledger_mod
from nova_ext_resources.host import service
from nova_ext_resources import plugins


def make_parser() -> argparse.ArgumentParser:
    """Declare the arguments."""
    names = sorted(
        set(plugins.list_names(plugins.INVENTORY_PROVIDERS))
        & set(plugins.list_names(plugins.ENFORCERS))
    )
    parser = argparse.ArgumentParser(
        prog=journal.COMMAND,
        description='Take what the servers of a host hold out of force at '
        'one backend and put it into force at another, while they run and '
        'nova-compute does not. It may be killed and run again at any time, '
        'and with --from and --to exchanged it goes back.',
    )
    for name, what in (('file', 'a file'), ('dir', 'a folder')):
        parser.add_argument(
            f'--config-{name}',
            action='append',
            default=[],
            help=f'{what} of nova-compute\'s options; may be repeated',
        )
    parser.add_argument(
        '--host', required=True, help='[DEFAULT] host of nova-compute'
    )
    parser.add_argument('--from', dest='source', required=True, choices=names)
    parser.add_argument('--to', dest='target', required=True, choices=names)
    parser.add_argument(
        '--ledger', help='its file, if the options do not tell'
    )
    parser.add_argument(
        '--dry-run', action='store_true', help='check, and change nothing'
    )
    parser.add_argument(
        '--unchecked',
        action='store_true',
        help='do not ask the new backend beforehand whether it can hold '
        'everything, because it cannot run beside the old one',
    )
    parser.add_argument(
        messages.SOURCE_IS_GONE,
        action='store_true',
        help='release nothing at the old backend, which does not answer and '
        'never will. WARNING: first make sure that nothing it did is in force '
        'in the kernel any more: RMD is stopped and its groups are removed '
        '(rmdir /sys/fs/resctrl/COS*), or the groups nova-* of resctrl are. '
        'What is left keeps its ways from all servers, and servers may have '
        'less than they were sold',
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Hand over; give the exit status."""
    parser = make_parser()
    options = parser.parse_args(arguments)
    if options.source == options.target:
        parser.error('--from and --to are the same')
    try:
        hand_over(options)
    except exception.ExtResourcesError as err:
        print(err, file=sys.stderr)
        return 1
    return 0


def hand_over(options: argparse.Namespace) -> None:
    """Do what the arguments say.

    :raises ExtResourcesError: it has stopped, and says in what state
    """
    conf = reader.read_conf(
        options.config_file, options.config_dir, options.host
    )
    _check_host(conf, options)
    _read_global(options)
    _check_rest(conf, options)
    trackers = plugins.load_trackers()
    tests = plugins.load_claim_tests(trackers, conf.ext_resources.claim_tests)
    path = _find_ledger(conf, options)
    _check_direction(path, conf, options)
    ledger = _open_ledger(path)
    try:
        made = run.HandOver(
            host=options.host,
            source=_load(conf, options.source, options.host, dict),
            target=_load(
                conf, options.target, options.host, ledger.list_entries
            ),
            ledger=ledger,
            trackers=trackers,
            tests=tuple(tests.values()),
            say=_say,
        )
        if options.dry_run:
            made.check(is_source_gone=options.source_is_gone)
            print(
                'It can be done, as far as can be told. Nothing was changed.'
            )
            return
        made.run(
            is_checked=not options.unchecked,
            is_source_gone=options.source_is_gone,
        )
    finally:
        ledger.close()
    _say(
        f'Done. Write {options.target} in place of {options.source} in '
        '[ext_resources] inventory_providers and enforcers, and start '
        f'nova-compute, which does not start with {options.source} now.'
    )


def _say(line: str) -> None:
    """Print; that nobody reads it is no reason to stop half-way."""
    try:
        print(line, flush=True)
    except OSError:
        # Python itself tries again at its end, and would fail then.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _check_host(conf: cfg.ConfigOpts, options: argparse.Namespace) -> None:
    """Make sure that the options are those of this host.

    :raises InvalidConfiguration: they are another's
    """
    conf.register_opt(cfg.StrOpt('host'))
    # Several computes may share one file, which then names none of them.
    if conf.host and not conf.ext_resources.host_config_dir:
        if conf.host != options.host:
            raise exception.InvalidConfiguration(
                option='--host',
                value=options.host,
                reason=f'[DEFAULT] host of its nova-compute is {conf.host}',
            )


def _check_direction(
    path: str, conf: cfg.ConfigOpts, options: argparse.Namespace
) -> None:
    """Make sure that the host runs with the one it shall leave.

    Once it has begun, the operator may have written either.

    :raises InvalidConfiguration: it does not
    """
    enabled = conf.ext_resources.enforcers
    if options.source in enabled or journal.Journal(path).read() is not None:
        return
    raise exception.InvalidConfiguration(
        option='--from',
        value=options.source,
        reason='this host runs with [ext_resources] enforcers = '
        f'{", ".join(enabled) or "(none)"}, according to its configuration '
        'files; name all of them with --config-file and --config-dir, and '
        'the backend that it leaves with --from',
    )


def _open_ledger(path: str) -> ledger_mod.Ledger:
    """Open it.

    :raises LedgerError: it cannot be; most likely nova-compute runs
    """
    try:
        return ledger_mod.Ledger(path)
    except exception.LedgerInUse as err:
        raise exception.LedgerInUse(
            path=path,
            reason='nova-compute of this host runs, or another hand-over; '
            'stop nova-compute first, servers run on meanwhile',
        ) from err


def _read_global(options: argparse.Namespace) -> None:
    """oslo.privsep, which writes to resctrl, reads the global options."""
    files = [
        arg for one in options.config_file for arg in ('--config-file', one)
    ]
    folders = [
        arg for one in options.config_dir for arg in ('--config-dir', one)
    ]
    cfg.CONF(
        [*files, *folders],
        project='nova',
        default_config_files=[],
        default_config_dirs=[],
    )


def _load(
    conf: cfg.ConfigOpts,
    name: str,
    host: str,
    entries: drivers_base.EntriesReader,
) -> run.Backend:
    (inventory,) = plugins.load_with_options(
        plugins.INVENTORY_PROVIDERS, [name], conf, host, entries
    ).values()
    (enforcer,) = plugins.load_with_options(
        plugins.ENFORCERS, [name], conf, host, entries
    ).values()
    return run.Backend(name=name, inventory=inventory, enforcer=enforcer)


def _check_rest(conf: cfg.ConfigOpts, options: argparse.Namespace) -> None:
    """Make sure that nova-compute will start with the new backend.

    :raises InvalidConfiguration: the other plugins exclude it
    """

    def exchange(names: Sequence[str]) -> list[str]:
        others = [
            n for n in names if n not in (options.source, options.target)
        ]
        return [*others, options.target]

    plugins.check_compatible(
        *(
            plugins.load_classes(namespace, exchange(names))
            for namespace, names in (
                (
                    plugins.INVENTORY_PROVIDERS,
                    conf.ext_resources.inventory_providers,
                ),
                (plugins.ENFORCERS, conf.ext_resources.enforcers),
            )
        )
    )


def _find_ledger(conf: cfg.ConfigOpts, options: argparse.Namespace) -> str:
    """Return the ledger's file, which must be there and be ours.

    :raises LedgerError: nobody says where it is, it is not there, or
        nova-compute could not write to it afterwards
    """
    path = options.ledger or conf.ext_resources.ledger_path
    if not path:
        conf.register_opt(cfg.StrOpt('state_path', default=''))
        folder = os.path.join(conf.state_path, 'ext_resources')
        path = service.find_ledger_path(
            conf.ext_resources, folder, options.host
        )
    if not os.path.isfile(path):
        raise exception.LedgerError(
            path=path,
            reason='there is no such file; name it with --ledger, as '
            'nova-compute has it in its log',
        )
    if os.stat(path).st_uid != os.geteuid():
        raise exception.LedgerError(
            path=path,
            reason='it belongs to another user, who could not write to it '
            'afterwards; run this as the user that nova-compute runs as',
        )
    return str(path)


if __name__ == '__main__':
    sys.exit(main())
