# SPDX-License-Identifier: Apache-2.0

"""The script of the devstack job, on hosts that have licences."""

from dev.cloud import commands
from dev.cloud import options
from dev.cloud import told
from dev.cloud import tree
from dev.gate import package
from dev.gate import site as sites

_FILE = package.ROOT / 'etc/nova_ext_resources/definitions.yaml'
_SCRIPT = package.ROOT / 'devstack/try.sh'


def play(site: sites.Site) -> None:
    """The script of the devstack job boots a server with licences."""
    before = site.cloud.settings.per_host
    site.configure(
        {
            host: options.merge(
                own,
                sites.add_plugins(own, 'static'),
                {'ext_resources_static': {'definitions_file': str(_FILE)}},
            )
            for host, own in before.items()
        },
    )
    try_it(site)
    site.configure(before)
    site.wait_until(
        lambda: not _list_static(site),
        'placement has no licences',
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
    left = [one.name for one in site.sdk.compute.servers()]
    told.expect('licensed' not in left, 'its server is deleted', left)


def _list_static(site: sites.Site) -> list[str]:
    return [
        one
        for one in tree.list_names(site.cloud.placement).values()
        if one.endswith('_STATIC')
    ]
