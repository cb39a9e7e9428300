# SPDX-License-Identifier: Apache-2.0

"""Keeps from Nova what its files must not add to a provider.

At each update of its inventory, Nova adds to the providers of the host what
its provider configuration files have. If one of them has a class already,
Nova gives up the whole update, and says so in its log alone: it goes on as if
it were well, but the compute node gets no inventory, and no server can be
built (ResourceTracker ``_merge_provider_configs`` of Nova 34).

Such a class is refused here, and everything else is left to Nova. Nova-compute
starts all the same: after a reboot of the host, its guests need it.

It also finds which classes Nova could not add.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
import dataclasses
import os
from typing import Any

from oslo_log import log as logging

from nova_ext_resources.host.inventory import config_files
from nova_ext_resources.host.service import wiring
from nova_ext_resources import log_on_change
from nova_ext_resources.objects import alarm
from nova_ext_resources.virt.provider_config import files

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A resource class that Nova must not add to a provider.

    :ivar file: name, without its folder
    :ivar identification: as the file identifies the provider
    :ivar provider: its name in placement
    :ivar is_own: whether a plugin reports the provider
    """

    file: str
    identification: str
    provider: str
    resource_class: str
    is_own: bool


def list_refused(
    configs: files.Configs,
    tree: Any,
    nodename: str,
    own: Collection[str],
) -> Iterator[Refused]:
    """Yield what would make Nova's update of a compute node fail.

    To a provider of plugins Nova could add a class once: at its next update
    it would find it there.

    :param tree: Nova's ``ProviderTree``, as the driver has updated it
    :param own: names and uuids of the providers that plugins report, whether
        or not they are in the tree yet
    """
    for identification, one in configs.items():
        found = _find_provider(configs, tree, nodename, identification)
        is_own = identification in own
        for name in files.list_classes(one):
            if is_own or (found and name in found.inventory):
                yield Refused(
                    file=str(one['__source_file']),
                    identification=identification,
                    provider=found.name if found else identification,
                    resource_class=name,
                    is_own=is_own,
                )


def _find_provider(
    configs: files.Configs,
    tree: Any,
    nodename: str,
    identification: str,
) -> Any:
    """Return the provider that Nova adds an entry to; None: to none."""
    if identification != files.COMPUTE_NODE:
        is_there = tree.exists(identification)
        return tree.data(identification) if is_there else None
    node = tree.data(nodename)
    return None if {node.name, node.uuid} & configs.keys() else node


def leave_out(
    configs: files.Configs, refused: Sequence[Refused]
) -> dict[str, Mapping[str, Any]]:
    """Return the same without what is refused, for Nova to add.

    An entry of which nothing is left stays where it takes the place of the
    one for all compute nodes. On a provider of plugins it would leave a trait.
    """
    own = {one.identification for one in refused if one.is_own}
    classes: dict[str, set[str]] = {}
    for one in refused:
        classes.setdefault(one.identification, set()).add(one.resource_class)
    return {
        identification: _without(one, classes.get(identification, ()))
        for identification, one in configs.items()
        if identification not in own or one.get('traits', {}).get('additional')
    }


def _without(
    one: Mapping[str, Any], classes: Collection[str]
) -> Mapping[str, Any]:
    if not classes:
        return one
    left = [
        {name: value for name, value in added.items() if name not in classes}
        for added in one['inventories']['additional']
    ]
    return {
        **one,
        'inventories': {
            **one['inventories'],
            'additional': [added for added in left if added],
        },
    }


class Collisions:
    """What is refused of Nova's files now.

    :ivar problems: one for each class of a provider; replaced and never
        changed: several threads read it

    :param tracker: Nova's resource tracker; None where there is none
    :param location: folder of Nova's files, for messages
    """

    def __init__(
        self,
        service: wiring.HostService,
        *,
        tracker: Any,
        location: str,
    ) -> None:
        self._service = service
        self._tracker = tracker
        self._location = location
        # All that Nova has read: it does so once, before the driver starts.
        self._configs = getattr(tracker, 'provider_configs', {})
        self._logged = log_on_change.LogOnChange(f'Host {service.host.host}: ')
        #: By node: a driver may have several.
        self._refused: dict[str, tuple[Refused, ...]] = {}
        self.problems: tuple[alarm.Problem, ...] = ()

    def refuse(self, tree: Any, nodename: str) -> None:
        """Have Nova add what it can add to this tree, and nothing else.

        Called for each update, which adds it right afterwards: what a provider
        has may change at any time. Nova runs one update at a time.

        :param tree: Nova's ``ProviderTree``, as the driver has updated it
        """
        if not self._configs:
            return
        host = self._service.host
        refused = tuple(
            list_refused(
                self._configs,
                tree,
                nodename,
                config_files.list_own_names(host),
            )
        )
        self._tracker.provider_configs = leave_out(self._configs, refused)
        if refused != self._refused.get(nodename, ()):
            self._refused[nodename] = refused
            self._report()

    def _report(self) -> None:
        self.problems = tuple(self._list_problems())
        self._logged.log_new(LOG.error, self.problems)
        self._service.periodic.wake_soon()

    def _list_problems(self) -> Iterator[alarm.Problem]:
        for refused in self._refused.values():
            for one in refused:
                yield alarm.Problem(
                    alarm=alarm.PROVIDER_CONFIG,
                    subject=f'{one.provider} {one.resource_class}',
                    text=self._explain(one),
                )

    def _explain(self, one: Refused) -> str:
        """Return what is wrong and what to do. Reads the file."""
        path = os.path.join(self._location, one.file)
        lines = config_files.find_lines(path, one.resource_class)
        reason = (
            'and its whole inventory are reported by a plugin'
            if one.is_own
            else (
                'already has this inventory, from the driver of Nova or '
                'other software'
            )
        )
        return (
            f'{config_files.locate(path, lines)}: {one.resource_class} of '
            f'provider {one.identification} is refused. Provider '
            f'{one.provider} of host {self._service.host.host} {reason}: with '
            'this entry, Nova could not update any inventory of this host. '
            'Remove the entry from the file, and restart nova-compute'
        )
