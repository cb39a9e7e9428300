# SPDX-License-Identifier: Apache-2.0

"""The rooms of the package: what may import what, and what stays pure."""

import ast
from collections.abc import Iterator
import pathlib
import sys

import nova_ext_resources
from tests import base

#: The rooms from the ground to the roof. A room imports from rooms below it.
ROOMS = (
    'clocks',
    'debounce',
    'exception',
    'log_on_change',
    'worker',
    'objects',
    'facts',
    'conf',
    'claims',
    'placement',
    'plugins',
    'reservation',
    'drivers',
    'inspection',
    'scheduler',
    'monitoring',
    'tuning',
    'host',
    'virt',
    'opts',
    'cmd',
    'testing',
)

#: Rooms that import nothing of some room below them.
NEVER: dict[str, frozenset[str]] = {
    'placement': frozenset({'claims'}),
    'reservation': frozenset({'worker'}),
    'drivers': frozenset({'placement'}),
    'scheduler': frozenset({'drivers', 'placement'}),
    'monitoring': frozenset({'placement', 'scheduler'}),
    'tuning': frozenset({'placement', 'scheduler'}),
    'host': frozenset({'scheduler'}),
    'virt': frozenset({'scheduler', 'monitoring', 'tuning'}),
    'testing': frozenset({'host', 'virt', 'cmd', 'scheduler', 'placement'}),
}

#: Of a room whose core is pure: what the core imports nothing of, and its
#: edges alone may.
EDGES = {
    'reservation': (
        frozenset({'conf', 'placement', 'plugins'}),
        ('reservation.blazar.', 'reservation.site.'),
    )
}

#: Below ``drivers/``: folder -> folders beside it that it may import. What
#: several kinds of resources share is in ``rdt`` and ``devices``.
DRIVERS: dict[str, frozenset[str]] = {
    'base': frozenset(),
    'cpu': frozenset({'base', 'devices'}),
    'devices': frozenset(),
    'rdt': frozenset(),
    'fake': frozenset({'base', 'rdt', 'rmd'}),
    'fpga': frozenset({'base', 'devices'}),
    'hostdev': frozenset({'base', 'devices'}),
    'noop': frozenset({'base'}),
    'resctrl': frozenset({'base', 'rdt'}),
    # RMD writes to resctrl, which shows what became of it.
    'rmd': frozenset({'base', 'rdt', 'resctrl'}),
    'shared_pool': frozenset({'base'}),
    'sriov': frozenset({'base', 'devices'}),
    'static': frozenset({'base'}),
}

#: Rooms that decide: they read no clock and no file, and do not log.
PURE = (
    'objects.',
    'facts.',
    'claims.',
    'drivers.cpu.traits',
    'drivers.devices.assignments',
    'drivers.devices.counted',
    'drivers.devices.device_spec',
    'drivers.fpga.owners',
    'drivers.fpga.traits',
    'drivers.rdt.',
    'drivers.resctrl.policy.',
    'drivers.shared_pool.pool_file',
    'drivers.shared_pool.reading',
    'host.claims.entry_table',
    'host.reconcile.rules.',
    'host.inventory.node_traits',
    'host.inventory.view',
    'inspection.',
    'placement.pools.desired',
    'placement.publish.diff',
    'placement.publish.desired',
    'reservation.',
    'tuning.controller',
    'tuning.history',
    'tuning.pressure',
    'tuning.steps',
    'tuning.trials',
)

#: Folders and modules within them that act, for all that is pure around them.
#: Nothing of the latter imports them.
ACTS = (
    'reservation.api.',
    'reservation.blazar.',
    'reservation.capacity.',
    'reservation.manager.',
    'reservation.site.',
    'reservation.store.',
    'reservation.survey.',
    'reservation.webhook.sender',
)

IMPURE = frozenset({'os', 'time', 'threading', 'logging', 'oslo_log'})

#: Up to Nova 33, nova-compute runs on eventlet, which replaces the thread, the
#: lock and the socket of the standard library. These go past it: where one of
#: them waits, all of nova-compute does.
PAST_EVENTLET = frozenset(
    {'_thread', 'asyncio', 'eventlet', 'multiprocessing'}
)

#: Only these may import Nova (its internals may change any day).
USES_NOVA = ('virt.', 'scheduler.', 'cmd.compute')

#: Of all the package only this folder may import Blazar, and nothing imports
#: it: Blazar finds it by its entry point.
USES_BLAZAR = 'reservation.blazar.'

#: What starts a cloud of ``dev/cloud``, and is not imported there.
USES_CLOUDS = (
    *('dev.bench.', 'dev.demo.', 'dev.gate.', 'dev.kernel.'),
    *('dev.matrix.', 'tests.', 'tools.'),
)

ROOT = pathlib.Path(nova_ext_resources.__path__[0])
PACKAGE = nova_ext_resources.__name__


def list_modules() -> Iterator[tuple[str, ast.Module]]:
    """Return each module's name below the package, and its tree."""
    for path in sorted(ROOT.rglob('*.py')):
        parts = path.relative_to(ROOT).with_suffix('').parts
        name = '.'.join(part for part in parts if part != '__init__')
        if name:
            yield name, ast.parse(path.read_text(encoding='utf-8'))


def list_imports(tree: ast.Module) -> Iterator[str]:
    """Return the full dotted names that a module imports, at any depth."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, 'relative import'
            yield from (f'{node.module}.{alias.name}' for alias in node.names)


def list_own(tree: ast.Module) -> Iterator[str]:
    """Return what a module imports of this package, without its name."""
    for imported in list_imports(tree):
        package, _dot, rest = imported.partition('.')
        if package == PACKAGE and rest:
            yield rest


def find_floor(room: str) -> int:
    if room not in ROOMS:
        raise AssertionError(f'{room} has no place in ROOMS: give it one')
    return ROOMS.index(room)


def find_forbidden(name: str, room: str) -> frozenset[str]:
    """Return the rooms of which only the edges of a room may import."""
    forbidden, edges = EDGES.get(room, (frozenset[str](), ()))
    return frozenset() if f'{name}.'.startswith(edges) else forbidden


def find_wrong_imports(name: str, tree: ast.Module) -> list[str]:
    """Return what a module imports that its room must not import."""
    room = name.partition('.')[0]
    wrong = []
    for imported in list_own(tree):
        other = imported.partition('.')[0]
        if find_floor(other) > find_floor(room) or (
            other in NEVER.get(room, frozenset()) | find_forbidden(name, room)
        ):
            wrong.append(f'{name} imports {imported}')
    return wrong


def find_sideways(name: str, tree: ast.Module) -> list[str]:
    """Return what a kind of resource imports of another kind."""
    room, _dot, rest = name.partition('.')
    own = rest.partition('.')[0]
    if room != 'drivers' or not own:
        return []
    allowed = DRIVERS[own] | {own}
    return [
        f'{name} imports {imported}'
        for imported in list_own(tree)
        if imported.startswith('drivers.')
        and imported.split('.')[1] not in allowed
    ]


def find_imports_of_nova(name: str, tree: ast.Module) -> list[str]:
    """Return what a module imports of Nova where it must not."""
    if f'{name}.'.startswith(USES_NOVA):
        return []
    return [
        f'{name} imports {imported}'
        for imported in list_imports(tree)
        if imported.partition('.')[0] == 'nova'
    ]


def find_imports_of_blazar(name: str, tree: ast.Module) -> list[str]:
    """Return what imports Blazar, or our plugin of it, where it must not."""
    if f'{name}.'.startswith(USES_BLAZAR):
        return []
    return [
        f'{name} imports {imported}'
        for imported in list_imports(tree)
        if imported.partition('.')[0] == 'blazar'
        or f'{imported}.'.startswith(f'{PACKAGE}.{USES_BLAZAR}')
    ]


def find_impure(name: str, tree: ast.Module) -> list[str]:
    """Return the imports of a pure module that let it act or look."""
    if not f'{name}.'.startswith(PURE) or f'{name}.'.startswith(ACTS):
        return []
    return [
        f'{name} imports {imported}'
        for imported in list_imports(tree)
        if imported.partition('.')[0] in IMPURE
        or f'{imported.removeprefix(f"{PACKAGE}.")}.'.startswith(ACTS)
    ]


def find_past_eventlet(name: str, tree: ast.Module) -> list[str]:
    """Return what a module has that eventlet does not replace."""
    wrong = [
        f'{name} imports {imported}'
        for imported in list_imports(tree)
        if imported.partition('.')[0] in PAST_EVENTLET
    ]
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr='flock' | 'lockf')):
                if 'fcntl.LOCK_NB' not in ast.unparse(node):
                    wrong.append(f'{name} waits in {ast.unparse(node)}')
    return wrong


def make_plan() -> dict[str, set[str]]:
    """Return room -> rooms that it imports."""
    plan: dict[str, set[str]] = {}
    for name, tree in list_modules():
        room = name.partition('.')[0]
        own = plan.setdefault(room, set())
        own.update(one.partition('.')[0] for one in list_own(tree))
        own.discard(room)
    return plan


def count_floors(plan: dict[str, set[str]]) -> int:
    """Return the length of the longest chain of rooms."""

    def height(room: str) -> int:
        return 1 + max(map(height, plan[room]), default=0)

    return max(map(height, plan))


def make_graph() -> dict[str, set[str]]:
    """Return module -> modules that it imports."""
    names = {name for name, _tree in list_modules()}
    graph: dict[str, set[str]] = {}
    for name, tree in list_modules():
        found = graph.setdefault(name, set())
        for one in list_own(tree):
            found.add(one if one in names else one.rpartition('.')[0])
        found &= names - {name}
    return graph


def find_circles(graph: dict[str, set[str]]) -> list[str]:
    """Return modules that import themselves by way of others."""
    left = dict(graph)
    while ready := [
        one for one, others in left.items() if not others & left.keys()
    ]:
        for one in ready:
            del left[one]
    return sorted(left)


class RoomsTest(base.TestCase):
    def test_nothing_waits_where_eventlet_cannot_switch(self) -> None:
        wrong = [
            one
            for name, tree in list_modules()
            if not name.startswith('testing.')
            for one in find_past_eventlet(name, tree)
        ]

        self.assertEqual([], wrong)
        waits = ast.parse('fcntl.flock(handle, fcntl.LOCK_EX)')
        self.assertNotEqual([], find_past_eventlet('x', waits))

    def test_rooms_import_from_lower_rooms_only(self) -> None:
        wrong = [
            one
            for name, tree in list_modules()
            for one in find_wrong_imports(name, tree)
        ]

        self.assertEqual([], wrong)

    def test_kinds_of_resources_stay_apart(self) -> None:
        wrong = [
            one
            for name, tree in list_modules()
            for one in find_sideways(name, tree)
        ]

        self.assertEqual([], wrong)

    def test_nova_is_imported_at_the_edge_only(self) -> None:
        wrong = [
            one
            for name, tree in list_modules()
            for one in find_imports_of_nova(name, tree)
        ]

        self.assertEqual([], wrong)

    def test_blazar_is_imported_by_its_plugin_only(self) -> None:
        wrong = [
            one
            for name, tree in list_modules()
            for one in find_imports_of_blazar(name, tree)
        ]

        self.assertEqual([], wrong)

    def test_rooms_that_decide_are_pure(self) -> None:
        wrong = [
            one
            for name, tree in list_modules()
            for one in find_impure(name, tree)
        ]

        self.assertEqual([], wrong)

    def test_there_is_no_circle(self) -> None:
        plan = make_plan()
        arrows = sum(map(len, plan.values()))
        print(
            f'{len(plan)} rooms, {arrows} arrows, {count_floors(plan)} floors',
            file=sys.stderr,
        )

        self.assertEqual([], find_circles(plan))

    def test_there_is_no_circle_of_modules(self) -> None:
        self.assertEqual([], find_circles(make_graph()))

    def test_eventlet_and_asyncio_are_imported_nowhere(self) -> None:
        wrong = [
            f'{name} imports {imported}'
            for name, tree in list_modules()
            for imported in list_imports(tree)
            if imported.partition('.')[0] in ('eventlet', 'asyncio')
        ]

        self.assertEqual([], wrong)


class BesideTest(base.TestCase):
    """What is beside the package: the clouds, and what runs on them."""

    def test_the_clouds_import_nothing_that_runs_on_them(self) -> None:
        wrong = [
            f'{path.name} imports {imported}'
            for path in sorted((ROOT.parent / 'dev/cloud').rglob('*.py'))
            for imported in list_imports(ast.parse(path.read_text()))
            if f'{imported}.'.startswith(USES_CLOUDS)
        ]

        self.assertEqual([], wrong)


class NoticedTest(base.TestCase):
    """What is wrong is found."""

    def test_an_import_of_a_higher_room(self) -> None:
        tree = ast.parse('def f():\n    from nova_ext_resources import host')

        wrong = find_wrong_imports('objects.host_view', tree)

        self.assertEqual(['objects.host_view imports host'], wrong)

    def test_an_import_of_a_room_that_is_forbidden(self) -> None:
        tree = ast.parse('import nova_ext_resources.drivers.base')

        wrong = find_wrong_imports('scheduler.filters', tree)

        self.assertEqual(['scheduler.filters imports drivers.base'], wrong)

    def test_an_import_that_only_an_edge_may_have(self) -> None:
        tree = ast.parse(
            'import nova_ext_resources.placement.api.placement_client'
        )

        wrong = find_wrong_imports('reservation.planner', tree)

        self.assertEqual(
            ['reservation.planner imports placement.api.placement_client'],
            wrong,
        )
        self.assertEqual(
            [], find_wrong_imports('reservation.site.hosts', tree)
        )

    def test_an_import_of_another_kind_of_resource(self) -> None:
        tree = ast.parse('from nova_ext_resources.drivers.rmd import api')

        wrong = find_sideways('drivers.resctrl.writer', tree)

        self.assertEqual(
            ['drivers.resctrl.writer imports drivers.rmd.api'], wrong
        )

    def test_an_import_of_nova(self) -> None:
        tree = ast.parse('import nova.conf')

        wrong = find_imports_of_nova('claims', tree)

        self.assertEqual(['claims imports nova.conf'], wrong)

    def test_an_import_of_blazar(self) -> None:
        tree = ast.parse(
            'from blazar.db import api\n'
            'from nova_ext_resources.reservation.blazar import plugin'
        )

        wrong = find_imports_of_blazar('reservation.api', tree)

        self.assertEqual(2, len(wrong))
        self.assertEqual(
            [], find_imports_of_blazar('reservation.blazar.rows', tree)
        )

    def test_a_clock_in_a_pure_room(self) -> None:
        tree = ast.parse('import time')

        wrong = find_impure('claims.decide', tree)

        self.assertEqual(['claims.decide imports time'], wrong)

    def test_a_folder_that_acts_in_a_pure_room(self) -> None:
        tree = ast.parse('from nova_ext_resources.reservation import store')

        wrong = find_impure('reservation.planner', tree)

        self.assertEqual(
            [
                'reservation.planner imports '
                'nova_ext_resources.reservation.store'
            ],
            wrong,
        )
        self.assertEqual([], find_impure('reservation.store.rows', tree))

    def test_a_circle(self) -> None:
        graph = {'a': {'b'}, 'b': {'c'}, 'c': {'b'}, 'd': set[str]()}

        self.assertEqual(['a', 'b', 'c'], find_circles(graph))
