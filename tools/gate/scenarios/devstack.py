# SPDX-License-Identifier: Apache-2.0

"""The script of the devstack job, on hosts that have licences."""

from cloud import commands
from cloud import options
from cloud import told
from cloud import tree
from cloud import waiting
from tools.gate import package
from tools.gate import plugins
from tools.gate import site as sites

_FILE = package.ROOT / 'etc/nova_ext_resources/definitions.yaml'
_SCRIPT = package.ROOT / 'devstack/try.sh'


def play(site: sites.Site) -> None:
    """The script of the devstack job boots a server with licences."""
    before = site.cloud.settings.per_host
    plugins.configure(
        site,
        {
            host: options.merge(
                own,
                plugins.add(own, 'static'),
                {'ext_resources_static': {'definitions_file': str(_FILE)}},
            )
            for host, own in before.items()
        },
    )
    try_it(site)
    plugins.configure(site, before)
    waiting.until(
        lambda: not _list_static(site),
        'placement has no licences',
        seconds=sites.PATIENCE,
        poll_seconds=1.0,
    )


def try_it(site: sites.Site) -> None:
    """Run the script as the job does.

    :raises NotAsTold: it fails, or leaves something
    """
    folder = site.cloud.folder.lib / 'devstack'
    folder.mkdir()
    (folder / 'openrc').write_text('# The environment has it all.\n')
    answer = commands.ask_script(
        site.cloud.folder, str(_SCRIPT), {'DEVSTACK_DIR': str(folder)}
    )
    told.expect(
        answer.status == 0 and 'CUSTOM_LICENCE_SEAT' in answer.output,
        f'{_SCRIPT.name} of devstack boots a server with seats',
        f'{answer.status}: {answer.output}\n{answer.errors}',
    )
    left = [one.name for one in site.cloud.sdk.compute.servers()]
    told.expect('licensed' not in left, 'its server is deleted', left)


def _list_static(site: sites.Site) -> list[str]:
    return [
        one
        for one in tree.list_names(site.cloud.placement).values()
        if one.endswith('_STATIC')
    ]
