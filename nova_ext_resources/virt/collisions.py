# SPDX-License-Identifier: Apache-2.0

"""Keeps from Nova what its files must not add to a provider.

At each update of its inventory, Nova adds to the providers of the host what
its provider configuration files have. If one of them has a class already,
Nova gives up the whole update, and says so in its log alone: it goes on as if
it were well, but the compute node gets no inventory, and no server can be
built (ResourceTracker ``_merge_provider_configs`` of Nova 34).

Such a class is refused here, and everything else is left to Nova. Nova-compute
starts all the same: after a reboot of the host, its guests need it.
"""

from collections.abc import Iterator
import os
from typing import Any

from oslo_log import log as logging

from nova_ext_resources.host import config_files
from nova_ext_resources.host import service as service_mod
from nova_ext_resources.objects import alarm
from nova_ext_resources.virt import refused as refused_mod

LOG = logging.getLogger(__name__)


class Collisions:
    """What is refused of Nova's files now.

    :ivar problems: one for each class of a provider; replaced and never
        changed: several threads read it

    :param tracker: Nova's resource tracker; None where there is none
    :param location: folder of Nova's files, for messages
    """

    def __init__(
        self,
        service: service_mod.HostService,
        *,
        tracker: Any,
        location: str,
    ) -> None:
        self._service = service
        self._tracker = tracker
        self._location = location
        # All that Nova has read: it does so once, before the driver starts.
        self._configs = getattr(tracker, 'provider_configs', {})
        #: By node: a driver may have several.
        self._refused: dict[str, tuple[refused_mod.Refused, ...]] = {}
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
            refused_mod.list_refused(
                self._configs,
                tree,
                nodename,
                config_files.list_own_names(host),
            )
        )
        self._tracker.provider_configs = refused_mod.leave_out(
            self._configs, refused
        )
        if refused != self._refused.get(nodename, ()):
            self._refused[nodename] = refused
            self._report()

    def _report(self) -> None:
        before = {str(one) for one in self.problems}
        self.problems = tuple(self._list_problems())
        for one in self.problems:
            if str(one) not in before:
                LOG.error(
                    'Host %(host)s: %(problem)s',
                    {'host': self._service.host.host, 'problem': one},
                )
        self._service.periodic.wake_soon()

    def _list_problems(self) -> Iterator[alarm.Problem]:
        for refused in self._refused.values():
            for one in refused:
                yield alarm.Problem(
                    alarm=alarm.PROVIDER_CONFIG,
                    subject=f'{one.provider} {one.resource_class}',
                    text=self._explain(one),
                )

    def _explain(self, one: refused_mod.Refused) -> str:
        """Return what is wrong and what to do. Reads the file."""
        path = os.path.join(self._location, one.file)
        lines = config_files.find_lines(path, one.resource_class)
        reason = (
            'is one that a plugin reports, with all that it has'
            if one.is_own
            else 'has it already, from the driver of Nova or other software'
        )
        return (
            f'{config_files.locate(path, lines)}: {one.resource_class} of '
            f'provider {one.identification} is refused. Provider '
            f'{one.provider} of host {self._service.host.host} {reason}: if '
            'Nova added it, Nova could not update any inventory of this host. '
            'Remove it from the file, and restart nova-compute'
        )
