# SPDX-License-Identifier: Apache-2.0

"""``nova-ext-resources-provider-config``: what a host has, as a file for Nova.

For sites that cannot run a driver of this package: Nova's own driver reads the
file, and placement counts what it has. Nothing is claimed or applied.
"""

import argparse
from collections.abc import Sequence
import os
import sys

import yaml

from nova_ext_resources.cmd import configuration
from nova_ext_resources import exception
from nova_ext_resources.host.inventory import discovery
from nova_ext_resources.host.inventory import provider_config
from nova_ext_resources import plugins

_PROGRAM = 'nova-ext-resources-provider-config'

_DESCRIPTION = """\
Print the resources that the inventory providers of this host find, in the form
of a provider configuration file of Nova, or write the file with --output.
Store the file below [compute] provider_config_location, and restart
nova-compute."""

_HEADER = """\
# Found on host {host} by {plugins}.
# Nova reads this file when nova-compute starts, and counts its resources. No
# server has units of its own, and nothing is applied. Do not use this file if
# nova-compute has a driver of nova-ext-resources, which reports the same
# resources.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Print or write the file; return the exit status."""
    parser = argparse.ArgumentParser(prog=_PROGRAM, description=_DESCRIPTION)
    configuration.add_arguments(parser)
    parser.add_argument(
        '--output', help='write the whole file to this path, atomically'
    )
    options = parser.parse_args(arguments)
    try:
        configured = configuration.read(options)
        found = _discover(configured)
        document = provider_config.make_document(
            found.providers, found.node_traits
        )
    except exception.ExtResourcesError as err:
        return _fail(str(err))
    problems = [*found.failures.values(), *map(_explain, found.left_out)]
    if not problems and not document['providers']:
        problems = ['no plugin has found a resource class or trait CUSTOM_*']
    if problems:
        return _fail(*problems)
    names = configured.conf.ext_resources.inventory_providers
    header = _HEADER.format(host=configured.host, plugins=', '.join(names))
    return _write(
        options.output, header + yaml.safe_dump(document, sort_keys=False)
    )


def _fail(*problems: str) -> int:
    for one in problems:
        print(f'{_PROGRAM}: {one}', file=sys.stderr)
    return 1


def _write(path: str | None, text: str) -> int:
    """Write the text; a file that is there stays until all is written."""
    if path is None:
        print(text, end='')
        return 0
    made = f'{path}.new'
    try:
        with open(made, 'w', encoding='utf-8') as file:
            file.write(text)
        os.replace(made, path)
    except OSError as err:
        return _fail(f'{path} cannot be written: {err}')
    return 0


def _discover(
    configured: configuration.Configuration,
) -> discovery.DiscoveredResources:
    """Read the host as nova-compute does.

    :raises ExtResourcesError: a plugin cannot be loaded, or there is none
    """
    conf, host = configured
    names = conf.ext_resources.inventory_providers
    if not names:
        raise exception.InvalidConfiguration(
            option='[ext_resources] inventory_providers',
            value='',
            reason='the option is empty; name the plugins that discover the '
            'resources of the host',
        )
    inventories = plugins.load_with_options(
        plugins.INVENTORY_PROVIDERS, names, conf, host
    )
    trackers = plugins.load_trackers()
    return discovery.Discovery(inventories, host, trackers=trackers).scan()


def _explain(name: str) -> str:
    return f'{name} cannot be reported; correct this resource first'


if __name__ == '__main__':
    sys.exit(main())
