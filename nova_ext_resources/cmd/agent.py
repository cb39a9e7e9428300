# SPDX-License-Identifier: Apache-2.0

"""``nova-ext-resources-agent``: publishes a host whose nova-compute is Nova's.

Or a host without nova-compute, such as a storage node; or bare-metal nodes.
"""

import argparse
from collections.abc import Sequence
import signal
import sys
from typing import TypeAlias

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.cmd import compute_node
from nova_ext_resources.cmd import configuration
from nova_ext_resources.cmd import log
from nova_ext_resources.conf import reader
from nova_ext_resources.conf import state
from nova_ext_resources import exception
from nova_ext_resources.host.service import agent as agent_mod
from nova_ext_resources import log_on_change
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import host_health
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.api import placement_client
from nova_ext_resources.placement.publish import publisher
from nova_ext_resources.reservation.manager import signals
from nova_ext_resources.reservation.manager import systemd

LOG = logging.getLogger(__name__)

_PROGRAM = 'nova-ext-resources-agent'

_DESCRIPTION = """\
Publish the resources that plugins find on this host, below the compute node of
this host. nova-compute of the host does not need this package. Resources are
counted and offered, but not claimed or applied, so plugins that need an
enforcer are refused. SIGHUP reads the configuration again, SIGTERM ends the
program; published resources stay in placement. Exit status: 0, ended by a
signal; 78, the configuration or the ledger cannot be used."""

#: ``EX_CONFIG`` of sysexits.h: systemd does not start it again by itself.
#: Otherwise it would take the ledger when a nova-compute is restarted.
_UNUSABLE = 78

#: Seconds between two reports to systemd.
_REPORT = 10.0

#: Seconds between two looks for a compute node, at most.
_LONGEST_WAIT = 60.0

_Configuration: TypeAlias = configuration.Configuration


class _NoNodeYet(Exception):
    """nova-compute has never been started here."""


def make_parser() -> argparse.ArgumentParser:
    """Declare the arguments."""
    parser = argparse.ArgumentParser(prog=_PROGRAM, description=_DESCRIPTION)
    configuration.add_arguments(parser)
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        '--node',
        help='uuid of the compute node (default: the uuid in the file '
        'compute_id of nova-compute)',
    )
    where.add_argument(
        '--without-node',
        action='store_true',
        help='publish only shared pools and bare-metal nodes: for a host '
        'without nova-compute, or a host that must not be published itself',
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run until a signal comes; return the exit status."""
    options = make_parser().parse_args(arguments)
    signals.block()
    try:
        configured = configuration.read(options)
        _set_up_log(options)
    except exception.ExtResourcesError as err:
        print(err, file=sys.stderr)
        return _UNUSABLE
    return _run(options, configured)


def _set_up_log(options: argparse.Namespace) -> None:
    """Log to where the options of the files say.

    :raises InvalidConfiguration: that cannot be
    """
    conf = cfg.ConfigOpts()
    logging.register_options(conf)
    files, folders = configuration.find_files(options)
    reader.parse(conf, files, folders)
    log.set_up(conf, _PROGRAM)


def _run(options: argparse.Namespace, configured: _Configuration) -> int:
    """Run one agent after the other, one for each configuration."""
    former: _Configuration | None = None
    while True:
        try:
            number = _live(options, configured)
        except exception.ExtResourcesError as err:
            if former is None:
                LOG.error('The agent cannot run: %(err)s', {'err': err})
                return _UNUSABLE
            LOG.error(
                'The new configuration cannot be used, and the former one '
                'stays in effect: %(err)s',
                {'err': err},
            )
            configured, former = former, None
            continue
        if number not in signals.RELOAD:
            break
        former, configured = configured, _read_again(options, configured)
    systemd.notify(systemd.STOPPING)
    LOG.info('Ended by %(signal)s', {'signal': signal.Signals(number).name})
    return 0


def _read_again(
    options: argparse.Namespace, before: _Configuration
) -> _Configuration:
    """Return the configuration as it is now, or the former one."""
    try:
        configured = configuration.read(options)
        agent_mod.check(configured.conf, state.find_folder(configured.conf))
        _set_up_log(options)
    except exception.ExtResourcesError as err:
        LOG.error(
            'The new configuration cannot be used, and the former one stays '
            'in effect: %(err)s',
            {'err': err},
        )
        return before
    LOG.info('The configuration was read again')
    return configured


def _live(options: argparse.Namespace, configured: _Configuration) -> int:
    """Run an agent until a signal comes; return the signal.

    :raises ExtResourcesError: something named in the options cannot be used
    """
    conf, host = configured
    # What cannot be used shall not wait for a compute node first.
    agent_mod.check(conf, state.find_folder(conf))
    systemd.notify(systemd.READY)
    try:
        node = None
        if not options.without_node:
            node = _wait_for_node(options, configured)
        agent = agent_mod.HostAgent(
            conf, host=host, node=node, state_path=state.find_folder(conf)
        )
        try:
            agent.start()
            LOG.info(
                'Host %(host)s: the resources of the plugins %(plugins)s are '
                'published below compute node: %(node)s',
                {
                    'host': host,
                    'node': node.uuid if node else 'none',
                    'plugins': ', '.join(
                        conf.ext_resources.inventory_providers
                    ),
                },
            )
            while True:
                _report(agent.metrics.read_health())
                signals.wait(_REPORT)
        finally:
            agent.stop()
    except signals.Signalled as err:
        return err.number


def _report(health: host_health.HostHealth) -> None:
    """Tell systemd how the host is; not that it is alive when it is not."""
    lines = [f'STATUS=host {health.host}: {health.status.value}']
    if all(one.name != alarm.STALLED for one in health.alarms):
        lines.append(systemd.ALIVE)
    systemd.notify(*lines)


def _wait_for_node(
    options: argparse.Namespace, configured: _Configuration
) -> host_provider.Node:
    """Return the compute node as soon as placement has it.

    :raises InvalidConfiguration: its uuid cannot be read
    :raises Signalled: a signal has come before
    """
    client = placement_client.from_conf(configured.conf)
    failures, logged = 0, log_on_change.LogOnChange()
    while True:
        try:
            return _find_node(options, configured.conf, client)
        except (exception.PlacementError, _NoNodeYet) as err:
            said = str(err)
            if logged.note(said):
                LOG.warning(
                    'Host %(host)s: nothing is published yet, and the agent '
                    'tries again: %(err)s',
                    {'host': configured.host, 'err': err},
                )
        failures += 1
        systemd.notify(systemd.ALIVE, f'STATUS=waits: {said.splitlines()[0]}')
        signals.wait(publisher.find_delay(failures, _LONGEST_WAIT))


def _find_node(
    options: argparse.Namespace,
    conf: cfg.ConfigOpts,
    client: placement_client.Client,
) -> host_provider.Node:
    """Return the compute node of this host.

    :raises InvalidConfiguration: its uuid cannot be read
    :raises PlacementError: placement does not show it
    """
    uuid = options.node or compute_node.read_uuid(conf)
    if uuid is None:
        raise _NoNodeYet(
            'there is no file '
            f'{" or ".join(compute_node.list_paths(conf))} yet, which '
            'nova-compute creates at its first start. If Nova does not keep '
            'the file, name the node with --node; on a host without '
            'nova-compute, use --without-node'
        )
    return compute_node.get(client, uuid)


if __name__ == '__main__':
    sys.exit(main())
