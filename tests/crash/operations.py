# SPDX-License-Identifier: Apache-2.0

"""The operations of Nova at whose steps a nova-compute is killed."""

from collections.abc import Callable, Mapping
import contextlib
import dataclasses
import time
from typing import Any

from tests.crash import patience
from tests.crash import site as site_mod

#: Ways that the flavors request; a domain has six.
SMALL, LARGE = 2, 3

_HOST1, _HOST2 = site_mod.HOSTS

#: Seconds for what passes, and may not come as the host is killed.
_MOMENT = 10.0

#: What Nova's API wants for a live migration; the scheduler chooses.
LIVE: Mapping[str, Any] = {'host': None, 'block_migration': 'auto'}

#: Microversion 2.74 and later lets an administrator choose the host.
_BOOT: Mapping[str, Any] = {'name': 'guest', 'networks': 'none'}


class Servers:
    """Servers of a site, by Nova's API."""

    def __init__(self, site: site_mod.Site) -> None:
        self.site = site
        self.small = self._make_flavor(SMALL)
        self.large = self._make_flavor(LARGE)

    def _make_flavor(self, ways: int) -> str:
        made = self.site.call(
            'POST',
            '/flavors',
            {
                'flavor': {
                    'name': f'ways-{ways}',
                    'ram': 64,
                    'vcpus': 2,
                    'disk': 0,
                }
            },
        )['flavor']['id']
        self.site.call(
            'POST',
            f'/flavors/{made}/os-extra_specs',
            {
                'extra_specs': {
                    'hw:cpu_policy': 'dedicated',
                    'resources:CUSTOM_LLC_WAYS': str(ways),
                }
            },
        )
        return str(made)

    def boot(self, host: str = _HOST1, count: int = 1) -> str:
        """Ask for servers; does not wait."""
        made = self.site.call(
            'POST',
            '/servers',
            {
                'server': {
                    **_BOOT,
                    'imageRef': self.site.image,
                    'flavorRef': self.small,
                    'host': host,
                    'min_count': count,
                }
            },
        )
        return str(made['server']['id'])

    def act(self, uuid: str, action: str, body: Any = None) -> None:
        self.site.call('POST', f'/servers/{uuid}/action', {action: body})

    def delete(self, uuid: str) -> None:
        self.site.call('DELETE', f'/servers/{uuid}')

    def delete_anew(self, uuid: str) -> None:
        """Delete a server that Nova takes for one that it deletes already."""
        self.act(uuid, 'os-resetState', {'state': 'error'})
        self.delete(uuid)

    def list(self, seconds: float = 60) -> dict[str, Any]:
        """Return all servers by uuid, with those that can be restored."""
        path = '/servers/detail?all_tenants=1&soft_deleted=1'
        found = self.site.call('GET', path, seconds=seconds)
        return {one['id']: one for one in found['servers']}

    def wait(self, uuid: str, *statuses: str) -> None:
        """Wait for a status.

        :raises Died: it is another one
        """
        deadline = time.monotonic() + patience.PATIENCE
        while True:
            one = self.list()[uuid]
            task = one['OS-EXT-STS:task_state']
            if one['status'] in statuses and task is None:
                return
            if one['status'] == 'ERROR' or time.monotonic() > deadline:
                raise patience.Died(f'server is {one["status"]} {task}: {one}')
            time.sleep(0.1)

    def wait_for(
        self, uuid: str, is_so: Callable[[Mapping[str, Any]], bool]
    ) -> None:
        """Wait for something of a server that may not come: for seconds."""
        with contextlib.suppress(patience.Died):
            patience.wait_until(
                lambda: is_so(self.list()[uuid]), 'such a server', _MOMENT
            )

    def soft_delete(self, uuid: str) -> None:
        """Delete a server so that it can be restored."""
        import nova.conf

        name = 'reclaim_instance_interval'
        # Nova's API is in this process, and decides at once.
        nova.conf.CONF.set_override(name, 3600)
        try:
            self.delete(uuid)
        finally:
            nova.conf.CONF.clear_override(name)

    def boot_and_wait(self) -> str:
        uuid = self.boot()
        self.wait(uuid, 'ACTIVE')
        return uuid

    def set_service(self, host: str, **fields: Any) -> None:
        """Change what Nova believes of a nova-compute."""
        found = self.site.call('GET', f'/os-services?host={host}')
        for one in found['services']:
            if one['binary'] == 'nova-compute':
                self.site.call('PUT', f'/os-services/{one["id"]}', fields)


Prepare = Callable[[Servers], str]
Act = Callable[[Servers, str], None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operation.

    :ivar prepare: makes the server that it begins with
    :ivar act: begins it; does not wait
    :ivar undo: afterwards, what was changed of the site
    """

    name: str
    prepare: Prepare
    act: Act
    undo: Callable[[Servers], None] = lambda _servers: None


def _nothing(_servers: Servers) -> str:
    return ''


def _boot(servers: Servers, _uuid: str) -> None:
    servers.boot()


def _begin(action: str, body: Any = None) -> Act:
    return lambda servers, uuid: servers.act(uuid, action, body)


def _after(action: str, status: str, body: Any = None) -> Prepare:
    def prepare(servers: Servers) -> str:
        uuid = servers.boot_and_wait()
        servers.act(uuid, action, body)
        servers.wait(uuid, status)
        servers.site.settle()
        return uuid

    return prepare


def _resize(servers: Servers, uuid: str) -> None:
    servers.act(uuid, 'resize', {'flavorRef': servers.large})


def _rebuild(servers: Servers, uuid: str) -> None:
    servers.act(uuid, 'rebuild', {'imageRef': servers.site.image})


def _moved(servers: Servers) -> str:
    uuid = servers.boot_and_wait()
    _only(servers, _HOST2)
    _resize(servers, uuid)
    servers.wait(uuid, 'VERIFY_RESIZE')
    servers.site.settle()
    return uuid


def _moved_here(servers: Servers) -> str:
    uuid = servers.boot_and_wait()
    _only(servers, _HOST1)
    _resize(servers, uuid)
    servers.wait(uuid, 'VERIFY_RESIZE')
    servers.site.settle()
    return uuid


def _only(servers: Servers, host: str) -> None:
    """Let the scheduler choose one host only."""
    for one in site_mod.HOSTS:
        status = 'enabled' if one == host else 'disabled'
        servers.set_service(one, status=status)


def _enable(servers: Servers) -> None:
    for one in site_mod.HOSTS:
        servers.set_service(one, status='enabled', forced_down=False)


def _ready_to_go(host: str) -> Prepare:
    def prepare(servers: Servers) -> str:
        uuid = servers.boot_and_wait()
        _only(servers, host)
        return uuid

    return prepare


def _abandoned(servers: Servers) -> str:
    uuid = servers.boot_and_wait()
    servers.site.settle()
    servers.site.computes[_HOST1].kill()
    servers.set_service(_HOST1, forced_down=True)
    return uuid


def _evacuated(servers: Servers) -> str:
    uuid = _abandoned(servers)
    servers.act(uuid, 'evacuate', {})
    servers.site.settle()
    # Nova lets it be up again once it has returned.
    servers.wait(uuid, 'SHUTOFF', 'ACTIVE')
    return uuid


def _boot_two(servers: Servers, _uuid: str) -> None:
    servers.boot(count=2)


def _delete_in_its_build(servers: Servers, _uuid: str) -> None:
    uuid = servers.boot()
    servers.wait_for(uuid, lambda one: one['OS-EXT-SRV-ATTR:host'] is not None)
    servers.delete(uuid)


def _delete_in_its_move(servers: Servers, uuid: str) -> None:
    servers.act(uuid, 'migrate')
    servers.wait_for(
        uuid, lambda one: one['OS-EXT-STS:task_state'] != 'resize_prep'
    )
    servers.delete(uuid)


def _delete_in_its_live_migration(servers: Servers, uuid: str) -> None:
    servers.act(uuid, 'os-migrateLive', LIVE)
    servers.wait_for(uuid, lambda one: _has_migration(servers, uuid))
    servers.delete(uuid)


def _has_migration(servers: Servers, uuid: str) -> bool:
    """Return whether a live migration is being transferred, or is over."""
    found = servers.site.call('GET', f'/os-migrations?instance_uuid={uuid}')
    return any(
        one['status'] not in ('accepted', 'queued', 'preparing')
        for one in found['migrations']
    )


def _restartable(servers: Servers) -> str:
    """Make a server that has moved, from a host that was restarted since."""
    uuid = _moved(servers)
    servers.site.computes[_HOST1].kill()
    servers.site.revive()
    servers.site.settle()
    return uuid


def _soft_deleted(servers: Servers) -> str:
    uuid = servers.boot_and_wait()
    servers.soft_delete(uuid)
    servers.wait(uuid, 'SOFT_DELETED')
    servers.site.settle()
    return uuid


def _come_back(servers: Servers, _uuid: str) -> None:
    servers.site.computes[_HOST1].start()


_boot_and_wait: Prepare = Servers.boot_and_wait

#: All of them, by name.
OPERATIONS: Mapping[str, Operation] = {
    one.name: one
    for one in (
        Operation(name='boot', prepare=_nothing, act=_boot),
        Operation(name='multi-create', prepare=_nothing, act=_boot_two),
        Operation(name='stop', prepare=_boot_and_wait, act=_begin('os-stop')),
        Operation(
            name='start',
            prepare=_after('os-stop', 'SHUTOFF'),
            act=_begin('os-start'),
        ),
        Operation(
            name='hard reboot',
            prepare=_boot_and_wait,
            act=_begin('reboot', {'type': 'HARD'}),
        ),
        Operation(
            name='soft reboot',
            prepare=_boot_and_wait,
            act=_begin('reboot', {'type': 'SOFT'}),
        ),
        Operation(
            name='pause',
            prepare=_boot_and_wait,
            act=_begin('pause'),
        ),
        Operation(
            name='unpause',
            prepare=_after('pause', 'PAUSED'),
            act=_begin('unpause'),
        ),
        Operation(
            name='suspend',
            prepare=_boot_and_wait,
            act=_begin('suspend'),
        ),
        Operation(
            name='resume',
            prepare=_after('suspend', 'SUSPENDED'),
            act=_begin('resume'),
        ),
        Operation(
            name='rescue',
            prepare=_boot_and_wait,
            act=_begin('rescue'),
        ),
        Operation(
            name='unrescue',
            prepare=_after('rescue', 'RESCUE'),
            act=_begin('unrescue'),
        ),
        Operation(name='rebuild', prepare=_boot_and_wait, act=_rebuild),
        Operation(name='shelve', prepare=_boot_and_wait, act=_begin('shelve')),
        Operation(
            name='unshelve',
            prepare=_after('shelve', 'SHELVED_OFFLOADED'),
            act=_begin('unshelve'),
        ),
        Operation(
            name='unshelve to the other host',
            prepare=_after('shelve', 'SHELVED_OFFLOADED'),
            act=_begin('unshelve', {'host': _HOST2}),
        ),
        Operation(
            name='resize',
            prepare=_ready_to_go(_HOST2),
            act=_resize,
            undo=_enable,
        ),
        Operation(
            name='resize on its host',
            prepare=_ready_to_go(_HOST1),
            act=_resize,
            undo=_enable,
        ),
        Operation(
            name='cold migrate',
            prepare=_ready_to_go(_HOST2),
            act=_begin('migrate'),
            undo=_enable,
        ),
        Operation(
            name='live migrate',
            prepare=_boot_and_wait,
            act=_begin('os-migrateLive', LIVE),
        ),
        Operation(
            name='confirm',
            prepare=_moved,
            act=_begin('confirmResize'),
            undo=_enable,
        ),
        Operation(
            name='confirm on its host',
            prepare=_moved_here,
            act=_begin('confirmResize'),
            undo=_enable,
        ),
        Operation(
            name='revert',
            prepare=_moved,
            act=_begin('revertResize'),
            undo=_enable,
        ),
        Operation(
            name='revert after a restart',
            prepare=_restartable,
            act=_begin('revertResize'),
            undo=_enable,
        ),
        Operation(
            name='revert on its host',
            prepare=_moved_here,
            act=_begin('revertResize'),
            undo=_enable,
        ),
        Operation(
            name='evacuate',
            prepare=_abandoned,
            act=_begin('evacuate', {}),
            undo=_enable,
        ),
        Operation(
            name='return after an evacuation',
            prepare=_evacuated,
            act=_come_back,
            undo=_enable,
        ),
        Operation(name='delete', prepare=_boot_and_wait, act=Servers.delete),
        Operation(
            name='delete before it is confirmed',
            prepare=_moved,
            act=Servers.delete,
            undo=_enable,
        ),
        Operation(
            name='delete while it is built',
            prepare=_nothing,
            act=_delete_in_its_build,
        ),
        Operation(
            name='delete while it is migrated',
            prepare=_ready_to_go(_HOST2),
            act=_delete_in_its_move,
            undo=_enable,
        ),
        Operation(
            name='delete while it is migrated live',
            prepare=_boot_and_wait,
            act=_delete_in_its_live_migration,
        ),
        Operation(
            name='soft delete',
            prepare=_boot_and_wait,
            act=Servers.soft_delete,
        ),
        Operation(
            name='restore',
            prepare=_soft_deleted,
            act=_begin('restore'),
        ),
    )
}
