# SPDX-License-Identifier: Apache-2.0

"""A server is resized, migrated and evacuated, and its cache goes with it."""

from dev.cloud import servers
from dev.cloud import told
from dev.cloud import waiting
from dev.demo import holdings
from dev.demo import scene as scenes
from dev.demo.story import boot
from dev.demo.story import given_back

_SERVER = 'roams-1'

#: What holds the former host's ways until a resize is confirmed or reverted.
_MIGRATION = 'its migration'


def play(scene: scenes.Scene) -> None:
    """Move one server in every way that Nova has.

    :raises NotAsTold: it was ever without its ways, a host gave them to
        another server too early, or kept them too long
    """
    scene.stage.act(
        'A server moves',
        'The new host claims its ways before the guest goes there. Until '
        'the user confirms a resize, the former host keeps its ways for the '
        'way back.',
    )
    host = boot.boot(scene, _SERVER, 'silver')
    _show(scene, 'Before', {host: 2})
    host = _resize(scene, host)
    host = _migrate_and_revert(scene, host)
    host = _migrate_live(scene, host)
    _evacuate(scene, host)
    given_back.delete_all(scene)


def _resize(scene: scenes.Scene, former: str) -> str:
    sdk, server = scene.sdk.compute, scene.servers[_SERVER]
    with scene.stage.step(f'Resize {_SERVER} to gold') as step:
        sdk.resize_server(server, scene.flavors['gold'])
        host = _wait(scene, 'VERIFY_RESIZE')
        step.result = f'on {host}, not confirmed'
    told.expect(host != former, f'{_SERVER} is on another host', host)
    _show(scene, 'Before it is confirmed', {host: 4}, kept={former: 2})
    with scene.stage.step('Confirm'):
        sdk.confirm_server_resize(server)
        _wait(scene, 'ACTIVE')
    _show(scene, 'Resized', {host: 4})
    return host


def _migrate_and_revert(scene: scenes.Scene, former: str) -> str:
    sdk, server = scene.sdk.compute, scene.servers[_SERVER]
    with scene.stage.step(f'Migrate {_SERVER}, cold') as step:
        sdk.migrate_server(server)
        host = _wait(scene, 'VERIFY_RESIZE')
        step.result = f'on {host}, not confirmed'
    _show(scene, 'Before it is reverted', {host: 4}, kept={former: 4})
    with scene.stage.step('Revert'):
        sdk.revert_server_resize(server)
        back = _wait(scene, 'ACTIVE')
    told.expect(back == former, f'{_SERVER} is back', back)
    _show(scene, 'Reverted', {back: 4})
    return back


def _migrate_live(scene: scenes.Scene, former: str) -> str:
    with scene.stage.step(f'Migrate {_SERVER}, live') as step:
        scene.sdk.compute.live_migrate_server(
            scene.servers[_SERVER], block_migration='auto'
        )
        host = _wait(scene, 'ACTIVE')
        step.result = f'on {host}'
    told.expect(host != former, f'{_SERVER} is on another host', host)
    _show(scene, 'Migrated', {host: 4})
    return host


def _evacuate(scene: scenes.Scene, failed: str) -> None:
    sdk, server = scene.sdk.compute, scene.servers[_SERVER]
    with scene.stage.step(f'{failed} fails; evacuate {_SERVER}') as step:
        _set_down(scene, failed, is_down=True)
        sdk.evacuate_server(server)
        # Nova leaves it to its user to start the server.
        _wait(scene, 'SHUTOFF')
        sdk.start_server(server)
        host = _wait(scene, 'ACTIVE')
        step.result = f'on {host}'
    told.expect(host != failed, f'{_SERVER} is on another host', host)
    with scene.stage.step(f'{failed} comes back'):
        scene.cloud.restart_computes()
        _set_down(scene, failed, is_down=False)
    _show(scene, 'Evacuated', {host: 4})


def _set_down(scene: scenes.Scene, host: str, *, is_down: bool) -> None:
    sdk = scene.sdk.compute
    (service,) = sdk.services(host=host, binary='nova-compute')
    sdk.update_service_forced_down(
        service, host, 'nova-compute', forced=is_down
    )


def _wait(scene: scenes.Scene, status: str) -> str:
    """Wait for a status; return the host."""
    server = scene.servers[_SERVER]
    servers.wait_for(scene.sdk, server, status)
    return str(scene.sdk.compute.get_server(server).compute_host)


def _show(
    scene: scenes.Scene,
    title: str,
    held: dict[str, int],
    kept: dict[str, int] | None = None,
) -> None:
    """Print who holds which ways, once the hosts have what they should.

    :param held: host -> ways that the server has there
    :param kept: host -> ways that its migration has there
    """
    found = _wait_for(scene, held, kept or {})
    scene.stage.table(
        title,
        ('host', 'for', 'ledger', 'placement', scene.manager),
        [
            (
                one.host,
                scene.names.get(one.consumer_uuid, _MIGRATION),
                one.ledger,
                one.placement,
                one.in_force,
            )
            for one in found
        ],
    )


def _wait_for(
    scene: scenes.Scene, held: dict[str, int], kept: dict[str, int]
) -> tuple[holdings.Holding, ...]:
    expected = {
        *((host, True, ways, ways, ways) for host, ways in held.items()),
        *((host, False, ways, ways, None) for host, ways in kept.items()),
    }
    found: tuple[holdings.Holding, ...] = ()

    def is_so() -> bool:
        nonlocal found
        found = holdings.compare(scene)
        return {_describe(scene, one) for one in found} == expected

    # A former host hears of the end a little after Nova's API tells it.
    try:
        waiting.until(is_so, f'{_SERVER} has {held}, and {kept} are kept')
    except told.NotAsTold as error:
        raise told.NotAsTold(str(error), str(found)) from error
    return found


def _describe(
    scene: scenes.Scene, one: holdings.Holding
) -> tuple[str, bool, int, int, int | None]:
    is_server = one.consumer_uuid in scene.names
    # RMD keeps ways free only for a workload, and the kernel without one.
    in_force = one.in_force if is_server else None
    return one.host, is_server, one.ledger, one.placement, in_force
