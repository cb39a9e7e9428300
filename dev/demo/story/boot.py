# SPDX-License-Identifier: Apache-2.0

"""Servers get their cache, on the socket that their CPUs are on."""

from dev.cloud import servers
from dev.cloud import told
from dev.cloud import tree
from dev.demo import holdings
from dev.demo import landed
from dev.demo import scene as scenes


def play(scene: scenes.Scene) -> None:
    """Boot one gold and one silver server per host and look at all sides.

    :raises NotAsTold: one is not ACTIVE, or has not got what it asked for
    """
    scene.stage.act(
        'Pinned servers with cache of their own',
        'Nova says where a server is and on which CPUs, placement what was '
        'allocated, the host\'s ledger which ways these are, and the machine '
        'which control group enforces them.',
    )
    number = range(1, len(scene.hosts) + 1)
    names = [
        *(f'db-{n}' for n in number),
        *(f'web-{n}' for n in number),
    ]
    for name in names:
        boot(scene, name, 'gold' if name.startswith('db') else 'silver')
    landed.show(scene, names)
    for one in holdings.compare(scene):
        told.expect(
            one.is_agreed,
            f'ledger, placement and machine {one.host} agree on '
            f'{one.consumer_uuid}',
            one,
        )


def boot(
    scene: scenes.Scene,
    name: str,
    flavor: str,
    *,
    host: str | None = None,
    reservation: str | None = None,
) -> str:
    """Boot a server that has to work.

    :param host: the only host that may build it
    :param reservation: of which it is to have a place
    :returns: the host that it is on
    :raises NotAsTold: it is not ACTIVE
    """
    where = f' on {host}' if host else _describe(reservation)
    with scene.stage.step(f'Boot {name}, {flavor}{where}') as step:
        made = scene.ask(name, flavor, host=host, reservation=reservation)
        servers.check_active(made)
        asked = [one.host for one in servers.list_attempts(scene.sdk, made.id)]
        step.result = f'{made.status} on {made.compute_host}'
        if asked[:-1]:
            step.result += f', refused by {", ".join(asked[:-1])}'
    return str(made.compute_host)


def boot_in_vain(
    scene: scenes.Scene,
    name: str,
    flavor: str,
    *,
    host: str | None = None,
    reservation: str | None = None,
    reason: str = '',
) -> None:
    """Boot a server that must be refused, and delete what Nova keeps of it.

    :param host: the only host that may build it
    :param reservation: of which it is to have a place
    :param reason: words that its fault must have
    :raises NotAsTold: it is ACTIVE, or holds something in placement
    """
    where = f' on {host} only' if host else _describe(reservation)
    with scene.stage.step(f'Boot {name}, {flavor}{where}') as step:
        made = scene.ask(name, flavor, host=host, reservation=reservation)
        held = tree.list_allocations(scene.cloud.placement, made.id)
        scene.delete(name)
        told.expect(made.status == 'ERROR', f'{name} is refused', made.status)
        told.expect(not held, f'{name} holds nothing in placement', held)
        fault = servers.fault(made)
        told.expect(reason in fault, f'{name} is refused: {reason}', fault)
        step.result = f'refused, as it should be: {fault}'


def _describe(reservation: str | None) -> str:
    return f', of reservation {reservation}' if reservation else ''
