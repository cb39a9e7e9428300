# SPDX-License-Identifier: Apache-2.0

"""``nova-ext-resources-provider-config``: what a host has, as a file for Nova.

For sites that cannot run a driver of this package: Nova's own driver reads the
file, and placement counts what it has. Nothing is claimed or applied.
"""

import argparse
from collections.abc import Sequence
import sys

import yaml

from nova_ext_resources.cmd import configuration
from nova_ext_resources import exception
from nova_ext_resources.host import discovery
from nova_ext_resources.host import provider_config
from nova_ext_resources import plugins

_PROGRAM = 'nova-ext-resources-provider-config'

_DESCRIPTION = """\
Print what the inventory providers of this host find as a provider
configuration file of Nova. It changes nothing. Store the output below
[compute] provider_config_location, and restart nova-compute."""

_HEADER = """\
# Found on host {host} by {plugins}.
# Nova reads this file when nova-compute starts, and counts what it has. No
# server has units of its own, and nothing is applied. Do not use it where
# nova-compute has a driver of nova-ext-resources, which reports the same.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the file; return the exit status."""
    parser = argparse.ArgumentParser(prog=_PROGRAM, description=_DESCRIPTION)
    configuration.add_arguments(parser)
    try:
        configured = configuration.read(parser.parse_args(arguments))
        found = _discover(configured)
        document = provider_config.make_document(found.providers)
    except exception.ExtResourcesError as err:
        problems = [str(err)]
    else:
        problems = [*found.failures.values(), *map(_explain, found.left_out)]
    for one in problems:
        print(f'{_PROGRAM}: {one}', file=sys.stderr)
    if problems:
        return 1
    names = configured.conf.ext_resources.inventory_providers
    print(
        _HEADER.format(host=configured.host, plugins=', '.join(names))
        + yaml.safe_dump(document, sort_keys=False),
        end='',
    )
    return 0


def _discover(configured: configuration.Configuration) -> discovery.Found:
    """Read the host as nova-compute does.

    :raises ExtResourcesError: a plugin cannot be loaded, or there is none
    """
    conf, host = configured
    names = conf.ext_resources.inventory_providers
    if not names:
        raise exception.InvalidConfiguration(
            option='[ext_resources] inventory_providers',
            value='',
            reason='it is empty; name the plugins that shall look at the host',
        )
    inventories = plugins.load_with_options(
        plugins.INVENTORY_PROVIDERS, names, conf, host
    )
    trackers = plugins.load_trackers()
    return discovery.Discovery(inventories, host, trackers=trackers).scan()


def _explain(name: str) -> str:
    return f'{name} cannot be reported; see the log, and correct it first'


if __name__ == '__main__':
    sys.exit(main())
