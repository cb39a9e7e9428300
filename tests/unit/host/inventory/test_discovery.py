# SPDX-License-Identifier: Apache-2.0

import dataclasses
import logging
import os
import sys
from typing import Any, ClassVar

import fixtures
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers import base as plugins_base
from nova_ext_resources import exception
from nova_ext_resources.host.inventory import discovery
from nova_ext_resources.host import manager
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import pool
from nova_ext_resources.objects import resource
from nova_ext_resources.placement.publish import diff
from nova_ext_resources import plugins as plugins_mod
from tests import base
from tests.unit import builders
from tests.unit.host import with_host

WAYS = builders.WAYS


DEFINITIONS = """
resources:
  - name: CUSTOM_SEAT
    units: seats
    description: Seats.
    inventory: {total: %s}
  - name: CUSTOM_OTHER
    units: others
    description: Others.
    inventory: {total: 5}
"""


class Plugin(plugins_base.InventoryProvider):
    """Finds what it is told to, or raises it."""

    OPTIONS: ClassVar[Any] = ()

    left_out = frozenset[str]()
    pools: tuple[pool.SharedPool, ...] = ()
    node_traits = frozenset[str]()

    def __init__(self, *found: host_provider.HostProvider | Exception) -> None:
        self.found = found

    def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
        return (
            builders.make_definition(),
            builders.make_definition(name=WAYS, type='cache_ways'),
        )

    def discover(self) -> tuple[host_provider.HostProvider, ...]:
        found = []
        for one in self.found:
            if isinstance(one, Exception):
                raise one
            found.append(one)
        return tuple(found)


def make(key: str, **fields: Any) -> host_provider.HostProvider:
    return builders.make_host_provider(key=key, **fields)


class DiscoveryTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger())
        self.first, self.second = Plugin(make('A')), Plugin(make('B'))
        self.discovery = self.make(first=self.first, second=self.second)

    def make(self, **plugins: Plugin) -> discovery.Discovery:
        return discovery.Discovery(
            plugins, 'host1', trackers=plugins_mod.load_trackers()
        )

    def keys(self) -> list[str]:
        return [one.key for one in self.discovery.scan().providers]

    def test_what_all_have_found_is_reported_in_their_order(self) -> None:
        found = self.discovery.scan()

        self.assertEqual(('A', 'B'), tuple(p.key for p in found.providers))
        self.assertTrue(found.is_complete)
        self.assertEqual({}, found.failures)

    def test_one_that_fails_keeps_what_it_found_last(self) -> None:
        self.discovery.scan()
        for reason in (
            exception.DiscoveryFailed(plugin='first', reason='it is asleep'),
            RuntimeError('it is asleep'),
            KeyError('asleep'),
        ):
            with self.subTest(reason=reason):
                self.first.found = (reason,)
                self.second.found = (make('C'),)

                found = self.discovery.scan()

                self.assertEqual(['A', 'C'], [p.key for p in found.providers])
                self.assertEqual({'first'}, set(found.failures))
                self.assertIn('asleep', found.failures['first'])
                self.assertTrue(found.is_complete)

    def test_pools_of_one_that_fails_are_old(self) -> None:
        one, two = (
            pool.SharedPool(name=name, resource_class=f'CUSTOM_{name}')
            for name in ('ONE', 'TWO')
        )
        self.first.pools, self.second.pools = (one,), (two,)
        self.assertEqual((one, two), self.discovery.scan().pools)

        self.first.found = (RuntimeError('it is asleep'),)

        self.assertEqual(
            (dataclasses.replace(one, is_failing=True), two),
            self.discovery.scan().pools,
        )

    def test_traits_of_the_compute_node_are_those_of_all(self) -> None:
        self.first.node_traits = frozenset({'CUSTOM_A'})
        self.second.node_traits = frozenset({'CUSTOM_B'})
        self.assertEqual(
            {'CUSTOM_A', 'CUSTOM_B'}, self.discovery.scan().node_traits
        )

        # What one that fails knew stays.
        self.first.node_traits = frozenset()
        self.first.found = (RuntimeError('it is asleep'),)

        self.assertEqual(
            {'CUSTOM_A', 'CUSTOM_B'}, self.discovery.scan().node_traits
        )

    def test_only_who_has_succeeded_says_what_is_gone(self) -> None:
        self.first.NODE_TRAITS_PREFIX = 'CUSTOM_A_'  # type: ignore[misc]
        self.second.NODE_TRAITS_PREFIX = 'CUSTOM_B_'  # type: ignore[misc]
        self.first.found = (RuntimeError('it is asleep'),)

        self.assertEqual({'CUSTOM_B_'}, self.discovery.scan().node_prefixes)

    def test_traits_that_are_not_for_the_compute_node(self) -> None:
        for trait in (
            'HW_CPU_HYPERTHREADING',
            'COMPUTE_NODE',
            'CUSTOM_',
            'CUSTOM_a',
            'CUSTOM_A\n',
            'CUSTOM_' + 'A' * 249,
            host_provider.OWNER_TRAIT,
        ):
            with self.subTest(trait=trait):
                self.first.node_traits = frozenset({trait})

                found = self.discovery.scan()

                self.assertEqual({'first'}, set(found.failures))
                self.assertIn(
                    'is not allowed on the compute node',
                    found.failures['first'],
                )
                self.assertEqual(frozenset(), found.node_traits)

    def test_what_cannot_be_applied_is_not_reported(self) -> None:
        asked = []

        def check_ready(resource_classes: frozenset[str]) -> None:
            asked.append(resource_classes)
            raise exception.EnforcementFailed(
                host='host1',
                enforcer='blunt',
                consumer_uuid='',
                reason='it cuts nothing',
            )

        made = discovery.Discovery(
            {'first': self.first},
            'host1',
            trackers=plugins_mod.load_trackers(),
            check_ready=check_ready,
        )

        found = made.scan()

        self.assertEqual([frozenset(make('A').inventories)], asked)
        self.assertEqual((), found.providers)
        self.assertEqual({'first'}, found.missing)
        self.assertIn('it cuts nothing', found.failures['first'])

    def test_one_that_never_worked_is_missing(self) -> None:
        self.first.found = (OSError('no such device'),)

        found = self.discovery.scan()

        self.assertEqual(frozenset({'first'}), found.missing)
        self.assertFalse(found.is_complete)
        self.assertEqual(['B'], [p.key for p in found.providers])

    def test_what_one_could_not_report_is_left_out(self) -> None:
        self.first.left_out = frozenset({'CUSTOM_SLOT'})
        self.second.left_out = frozenset({'file, entry 2'})

        found = self.discovery.scan()

        self.assertFalse(found.is_complete)
        self.assertEqual({'CUSTOM_SLOT', 'file, entry 2'}, found.left_out)
        self.assertIn('CUSTOM_SLOT', found.resource_classes)
        self.assertEqual(frozenset(), found.missing)

        self.first.left_out = self.second.left_out = frozenset()
        self.assertTrue(self.discovery.scan().is_complete)

    def test_one_that_fails_leaves_out_what_it_did_before(self) -> None:
        self.first.left_out = frozenset({'CUSTOM_SLOT'})
        self.discovery.scan()
        self.first.left_out = frozenset()
        self.first.found = (OSError('no such device'),)

        self.assertEqual({'CUSTOM_SLOT'}, self.discovery.scan().left_out)

    def test_the_order_is_the_same_whoever_worked_first(self) -> None:
        self.first.found = (OSError('no such device'),)
        self.discovery.scan()
        self.first.found = (make('A'),)

        self.assertEqual(['A', 'B'], self.keys())

    def test_what_is_gone_is_not_reported_any_more(self) -> None:
        self.discovery.scan()
        self.first.found = ()

        self.assertEqual(['B'], self.keys())
        self.assertEqual({}, self.discovery.scan().failures)

    def test_each_change_is_logged_once(self) -> None:
        for reason in ('asleep', 'asleep', 'gone', 'gone', 'asleep'):
            self.first.found = (RuntimeError(reason),)
            self.discovery.scan()
        lines = [one for one in self.log.output.splitlines() if 'host1' in one]
        self.assertEqual(3, len(lines))

        self.first.found = ()
        for _ in range(2):
            self.discovery.scan()

        self.assertEqual(1, self.log.output.count('works again'))

    def test_an_error_is_not_told_twice_in_a_line(self) -> None:
        """oslo.log adds the error that is being handled to such lines."""
        handled: list[object] = []

        def notice(line: logging.LogRecord) -> bool:
            if line.levelno >= logging.ERROR:
                handled.append(sys.exc_info()[1])
            return True

        logger = logging.getLogger(discovery.__name__)
        logger.addFilter(notice)
        self.addCleanup(logger.removeFilter, notice)
        for reason in (
            exception.DiscoveryFailed(plugin='first', reason='asleep'),
            exception.LedgerError(path='/x', reason='asleep'),
            RuntimeError('asleep'),
        ):
            self.first.found = (reason,)
            self.discovery.scan()

        self.assertEqual([None, None, None], handled)

    def assert_refused(self, *words: str) -> None:
        """Both plugins were looked at, and the first was refused."""
        found = self.discovery.scan()

        self.assertEqual(['A', 'B'], [p.key for p in found.providers])
        self.assertEqual({'first'}, set(found.failures))
        for word in (
            'An earlier inventory of the provider stays valid',
            *words,
        ):
            self.assertIn(word, found.failures['first'])

    def test_a_key_of_another_plugin_is_refused(self) -> None:
        self.discovery.scan()
        self.first.found = (make('X'), make('B'))

        self.assert_refused('key B')

    def test_a_key_that_is_there_twice_is_refused(self) -> None:
        self.discovery.scan()
        self.first.found = (make('X'), make('X'))

        self.assert_refused('key X')

    def test_an_unknown_parent_is_refused(self) -> None:
        self.discovery.scan()
        self.first.found = (make('X', parent_key='Y'),)

        self.assert_refused('unknown parent Y')

    def test_a_child_before_its_parent_is_refused(self) -> None:
        self.discovery.scan()
        self.first.found = (make('X', parent_key='Y'), make('Y'))

        self.assert_refused('unknown parent Y')

    def test_a_child_of_another_plugin_is_welcome(self) -> None:
        self.second.found = (make('B', parent_key='A'),)

        self.assertEqual(['A', 'B'], self.keys())

    def test_children_go_with_their_parent(self) -> None:
        self.second.found = (
            make('B', parent_key='A', implied={builders.SEATS: 'CUSTOM_X'}),
        )
        self.discovery.scan()
        self.first.found = ()

        found = self.discovery.scan()

        self.assertEqual({'second'}, set(found.failures))
        self.assertIn('unknown parent A', found.failures['second'])
        self.assertEqual((), found.providers)

    def test_what_its_tracker_cannot_track_is_refused(self) -> None:
        self.discovery.scan()
        ways = {WAYS: builders.make_inventory(11)}
        shared = {WAYS: builders.make_inventory(11, allocation_ratio=2.0)}
        tracked = {WAYS: 'cache_ways'}
        free = {WAYS: {'free': '7ff'}}
        for what, word, fields in (
            ('no facts', 'free', {'inventories': ways, 'trackers': tracked}),
            (
                'a mask of no ways',
                'rubbish',
                {
                    'inventories': ways,
                    'trackers': tracked,
                    'units': {WAYS: {'free': 'rubbish'}},
                },
            ),
            (
                'sold twice',
                'allocation_ratio',
                {
                    'inventories': shared,
                    'trackers': tracked,
                    'units': free,
                },
            ),
            (
                'another tracker',
                'definitions is cache_ways',
                {'inventories': ways},
            ),
            (
                'something undefined',
                'definitions is none',
                {'inventories': {'CUSTOM_X': builders.make_inventory()}},
            ),
        ):
            with self.subTest(what=what):
                self.first.found = (make('X', **fields),)

                self.assert_refused(word)


class HostTest(with_host.HostTestCase):
    def test_a_plugin_gone_bad_takes_no_other_one_down(self) -> None:
        self.useFixture(fixtures.FakeLogger())
        plugin = Plugin(make('LICENCES'))
        host = with_host.make_host(
            {'licences': plugin, **self.load_fake()},
            self.load_noop(),
            self.open_ledger(),
        )
        host.refresh()
        before = host.view
        plugin.found = (
            make(
                'LICENCES',
                inventories={WAYS: builders.make_inventory(11)},
                trackers={WAYS: 'cache_ways'},
            ),
        )

        host.refresh()

        self.assertEqual(before, host.view)
        self.assertEqual({'licences'}, set(host.found.failures))


class BrokenEntryTest(with_host.HostTestCase):
    """An entry of a file was broken while the service was down."""

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(fixtures.FakeLogger())
        self.path = os.path.join(
            os.path.dirname(self.ledger_path), 'definitions.yaml'
        )
        host = self.make_host('20')
        self.before = host.providers()
        host.close()
        self.host = self.make_host('20.5')

    def make_host(self, seats: str) -> manager.HostManager:
        with open(self.path, 'w', encoding='utf-8') as file:
            file.write(DEFINITIONS % seats)
        plugins = self.load(
            plugins_mod.INVENTORY_PROVIDERS,
            'static',
            definitions_file=self.path,
        )
        host = with_host.make_host(
            plugins, self.load_noop(), self.open_ledger()
        )
        host.refresh()
        return host

    def claim(self, resource_class: str) -> assignment.Entry:
        return self.host.claim(
            with_host.make_claim(
                uuidsentinel.server,
                cpus=None,
                allocations={self.before[0].rp_uuid: {resource_class: 3}},
                requirement=builders.make_requirement(_={resource_class: 3}),
            )
        )

    def test_nothing_of_it_leaves_placement(self) -> None:
        root = host_provider.Provider(
            rp_uuid=with_host.NODE.uuid, name='host1'
        )

        plan = diff.plan(
            self.host.providers(),
            [root, *self.before],
            may_delete=self.host.found.is_complete,
        )

        self.assertEqual(((), ()), (plan.changes, plan.undeleted))

    def test_a_claim_of_it_is_refused_and_one_of_others_is_not(self) -> None:
        self.assertRaises(exception.ClaimError, self.claim, 'CUSTOM_SEAT')

        (held,) = self.claim('CUSTOM_OTHER').assignments
        self.assertEqual('CUSTOM_OTHER', held.resource_class)

    def test_when_it_is_good_again_all_is_as_it_was(self) -> None:
        with open(self.path, 'w', encoding='utf-8') as file:
            file.write(DEFINITIONS % '20 ')

        self.host.refresh()

        self.assertEqual(self.before, self.host.providers())
        self.assertTrue(self.host.found.is_complete)
        self.claim('CUSTOM_SEAT')
