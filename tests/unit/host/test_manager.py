# SPDX-License-Identifier: Apache-2.0

import dataclasses
import datetime
import json
import os
from typing import ClassVar

import fixtures
from oslo_config import cfg
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers import base
from nova_ext_resources import exception
from nova_ext_resources.facts import server
from nova_ext_resources.host.ledger import ledger as ledger_mod
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects.documents import holders
from nova_ext_resources.objects.documents import stats
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import reserved_units
from nova_ext_resources.objects import resource
from nova_ext_resources import plugins as plugins_mod
from tests.unit import builders
from tests.unit.host import with_host

WAYS = with_host.WAYS
CLOS = with_host.CLOS
SEATS = builders.SEATS
DOMAINS = with_host.DOMAINS
RDT = with_host.RDT

SERVER = uuidsentinel.server
OTHER = uuidsentinel.other


class Licences(base.InventoryProvider):
    """Offers four seats, and any number of providers of a plugin's own."""

    found: ClassVar[tuple[host_provider.HostProvider, ...]] = (
        builders.make_host_provider(
            inventories={SEATS: builders.make_inventory(4)}
        ),
    )

    def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
        return (builders.make_definition(),)

    def discover(self) -> tuple[host_provider.HostProvider, ...]:
        return self.found


LICENCES = host_provider.make_rp_uuid(with_host.NODE.uuid, 'LICENCES')


def load_licences(
    conf: cfg.ConfigOpts, cls: type[Licences] = Licences
) -> dict[str, base.InventoryProvider]:
    options = plugins_mod.register_opts(conf, 'licences', ())
    return {'licences': cls(options, 'host1')}


class ClaimTest(with_host.HostTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.host = self.make_noop_host()

    def used(self, domain: int = 0) -> int:
        return self.host.view.tracked[DOMAINS[domain], WAYS].state.used

    def test_a_claim_takes_ways_and_a_class_of_service(self) -> None:
        entry = self.host.claim(with_host.make_claim(SERVER, 4))

        held = {one.rp_key: one for one in entry.assignments}
        self.assertEqual({'L3_0', 'RDT'}, set(held))
        self.assertEqual({'mask': 'f'}, dict(held['L3_0'].units))
        self.assertFalse(held['RDT'].is_allocated)
        self.assertEqual({SERVER: 'claimed'}, self.read_rows())
        self.assert_consistent(self.host)

    def test_an_applied_claim_is_on_record_as_such(self) -> None:
        self.host.claim(with_host.make_claim(SERVER))

        self.host.apply(SERVER)

        self.assertEqual({SERVER: 'applied'}, self.read_rows())
        self.assert_consistent(self.host)

    def test_a_release_gives_exactly_that_back(self) -> None:
        self.host.claim(with_host.make_claim(OTHER, 3))
        before = self.host.view
        self.host.claim(with_host.make_claim(SERVER, 4))
        self.host.apply(SERVER)

        self.host.release(SERVER)

        self.assertEqual(before, self.host.view)
        self.assertEqual({OTHER: 'claimed'}, self.read_rows())

    def test_what_is_not_held_is_released_and_applied_in_peace(self) -> None:
        self.host.release(SERVER)
        self.host.apply(SERVER)

        self.assertEqual({}, self.host.entries)

    def test_a_second_claim_of_a_server_replaces_its_first(self) -> None:
        self.host.claim(with_host.make_claim(SERVER, 4))
        self.host.apply(SERVER)

        self.host.claim(with_host.make_claim(SERVER, 9))

        self.assertEqual(9, self.used())
        self.assertEqual({SERVER: 'claimed'}, self.read_rows())
        self.assert_consistent(self.host)

    def test_a_second_claim_may_take_what_the_first_has(self) -> None:
        self.host.claim(with_host.make_claim(OTHER, 3))
        self.host.claim(with_host.make_claim(SERVER, 7))
        self.host.apply(SERVER)

        self.host.claim(with_host.make_claim(SERVER, 8), is_running=True)

        self.assertEqual(11, self.used())
        self.assert_consistent(self.host)

    def test_one_that_is_refused_leaves_a_running_guest_the_first(
        self,
    ) -> None:
        self.host.claim(with_host.make_claim(OTHER, 3))
        self.host.claim(with_host.make_claim(SERVER, 4))
        self.host.apply(SERVER)
        before, view = self.host.find_entry(SERVER), self.host.view

        err = self.assertRaises(
            exception.ClaimError,
            self.host.claim,
            with_host.make_claim(SERVER, 9),
            is_running=True,
        )

        self.assertIn('8 available', str(err))
        self.assertEqual(before, self.host.find_entry(SERVER))
        self.assertEqual(view, self.host.view)
        self.assertEqual(
            {OTHER: 'claimed', SERVER: 'applied'}, self.read_rows()
        )
        self.assert_consistent(self.host)

    def test_a_server_that_asks_nothing_of_us_is_not_on_record(self) -> None:
        entry = self.host.claim(
            with_host.make_claim(
                SERVER,
                allocations={with_host.NODE.uuid: {'VCPU': 4}},
                requirement=builders.make_requirement(),
            )
        )

        self.assertEqual((), entry.assignments)
        self.assertEqual({}, self.read_rows())
        self.assertEqual({}, self.host.entries)

    def test_all_reasons_are_reported_at_once(self) -> None:
        host = with_host.make_host(
            {**self.load_fake(), **load_licences(self.conf)},
            self.load_noop(),
            self.reopen(),
        )
        host.refresh()

        err = self.assertRaises(
            exception.ConstraintsViolated,
            host.claim,
            with_host.make_claim(
                SERVER,
                allocations={
                    DOMAINS[0]: {WAYS: 12},
                    DOMAINS[1]: {WAYS: 2},
                    LICENCES: {SEATS: 5},
                },
                requirement=builders.make_requirement(_={WAYS: 14, SEATS: 5}),
            ),
        )

        short = {(one.rp_uuid, one.resource_class) for one in err.shortfalls}
        self.assertEqual(
            {(DOMAINS[0], WAYS), (DOMAINS[1], WAYS), (LICENCES, SEATS)}, short
        )
        for words in (SERVER, 'host1', '12 requested', '5 requested', SEATS):
            self.assertIn(words, str(err))
        self.assertIn(
            'not among the CPUs of this cache (12-23,36-47)', str(err)
        )

    def reopen(self) -> ledger_mod.Ledger:
        self.host.close()
        return self.open_ledger()

    def test_a_refused_claim_takes_nothing_at_all(self) -> None:
        self.host.claim(
            with_host.make_claim(OTHER, 10, domain=1, cpus=frozenset({14}))
        )
        before = self.host.view

        self.assertRaises(
            exception.CapacityExceeded,
            self.host.claim,
            with_host.make_claim(
                SERVER,
                allocations={DOMAINS[0]: {WAYS: 2}, DOMAINS[1]: {WAYS: 2}},
                cpus=frozenset({1, 13}),
            ),
        )

        self.assertEqual(before, self.host.view)
        self.assertEqual({OTHER: 'claimed'}, self.read_rows())

    def test_a_server_without_pinned_cpus_can_never_be_served(self) -> None:
        err = self.assertRaises(
            exception.ConstraintsViolated,
            self.host.claim,
            with_host.make_claim(SERVER, cpus=None),
        )

        self.assertIn('hw:cpu_policy=dedicated', str(err))

    def test_ways_follow_the_cpus_to_their_domain(self) -> None:
        entry = self.host.claim(
            with_host.make_claim(SERVER, domain=0, cpus=frozenset({13, 37}))
        )

        self.assertEqual(
            {'L3_1', 'RDT'}, {one.rp_key for one in entry.assignments}
        )
        self.assertEqual((0, 2), (self.used(0), self.used(1)))

    def test_ways_do_not_follow_to_a_full_domain(self) -> None:
        self.host.claim(
            with_host.make_claim(OTHER, 10, domain=1, cpus=frozenset({12, 14}))
        )

        err = self.assertRaises(
            exception.CapacityExceeded,
            self.host.claim,
            with_host.make_claim(SERVER, 2, cpus=frozenset({13, 37})),
        )

        self.assertIn('2 requested, 1 available', str(err))
        self.assertEqual({OTHER: 'claimed'}, self.read_rows())

    def test_classes_of_service_run_out_like_anything_else(self) -> None:
        for number in range(6):
            self.host.claim(with_host.make_claim(f'server-{number}', 1))

        err = self.assertRaises(
            exception.CapacityExceeded,
            self.host.claim,
            with_host.make_claim(SERVER, 1),
        )

        self.assertEqual(
            [CLOS], [one.resource_class for one in err.shortfalls]
        )

    def test_what_no_test_refuses_is_not_taken_unless_it_fits(self) -> None:
        self.host._transitions._tests = ()

        err = self.assertRaises(
            exception.CapacityExceeded,
            self.host.claim,
            with_host.make_claim(SERVER, 12),
        )

        self.assertIn('host1', str(err))
        self.assertEqual({}, self.read_rows())

    def test_nothing_is_claimed_that_cannot_be_written_down(self) -> None:
        before = self.host.view
        self.host._ledger._db.execute('PRAGMA query_only = 1')

        self.assertRaises(
            exception.LedgerError,
            self.host.claim,
            with_host.make_claim(SERVER),
        )

        self.assertEqual(before, self.host.view)
        self.assertEqual({}, self.host.entries)

    def test_a_release_that_cannot_be_written_down_is_finished_later(
        self,
    ) -> None:
        self.host.claim(with_host.make_claim(SERVER))
        self.host.apply(SERVER)
        self.host._ledger._db.execute('PRAGMA query_only = 1')
        self.assertRaises(exception.LedgerError, self.host.release, SERVER)
        self.assertEqual(2, self.used())

        self.host._ledger._db.execute('PRAGMA query_only = 0')
        self.host.heal()

        self.assertEqual({}, self.read_rows())
        self.assertEqual(0, self.used())

    def test_a_restart_finds_everything_as_it_was(self) -> None:
        self.host.claim(with_host.make_claim(SERVER, 3))
        self.host.apply(SERVER)
        before = self.host.view
        self.host.close()

        again = self.make_noop_host()

        self.assertEqual(before, again.view)
        self.assert_consistent(again)

    def test_what_servers_that_are_gone_hold_is_given_back(self) -> None:
        for uuid in (SERVER, OTHER):
            self.host.claim(with_host.make_claim(uuid, 3))
            self.host.apply(uuid)
        self.host.close()
        again = self.make_noop_host()

        again.reconcile([OTHER])

        self.assertEqual({OTHER: 'applied'}, self.read_rows())
        self.assert_consistent(again)

    def test_a_claim_that_a_crash_left_is_applied_at_the_start(self) -> None:
        self.host.claim(with_host.make_claim(SERVER))
        self.host.close()
        again = self.make_noop_host()
        again.heal()
        self.assertEqual({SERVER: 'claimed'}, self.read_rows())

        again.reconcile([SERVER])

        self.assertEqual({SERVER: 'applied'}, self.read_rows())


class EntryTest(with_host.HostTestCase):
    """Of whom an entry is, and since when."""

    def setUp(self) -> None:
        super().setUp()
        self.host = self.make_noop_host()

    def restart(self) -> None:
        self.host.close()
        self.host = self.make_noop_host()

    def test_an_entry_names_its_server_project_flavor_and_time(self) -> None:
        before = datetime.datetime.now(datetime.UTC)
        self.host.claim(
            dataclasses.replace(
                with_host.make_claim(SERVER), project_id='p1', flavor='gold'
            )
        )

        self.restart()

        entry = self.host.entries[SERVER]
        self.assertEqual(
            (SERVER, 'p1', 'gold'),
            (entry.server_uuid, entry.project_id, entry.flavor),
        )
        assert entry.claimed_at is not None
        self.assertEqual(datetime.timedelta(0), entry.claimed_at.utcoffset())
        self.assertLessEqual(before, entry.claimed_at)

    def test_what_nova_knows_completes_an_older_entry(self) -> None:
        known = dataclasses.replace(
            with_host.make_claim(OTHER), project_id='p2', flavor='silver'
        )
        for request in (with_host.make_claim(SERVER), known):
            self.host.claim(request)
        self.restart()
        before = self.host.entries
        info = server.NovaServer(flavor='gold', project_id='p1')

        self.host.describe({SERVER: info, OTHER: info})
        self.restart()

        self.assertEqual(
            {
                SERVER: dataclasses.replace(
                    before[SERVER], project_id='p1', flavor='gold'
                ),
                OTHER: before[OTHER],
            },
            self.host.entries,
        )
        self.assert_consistent(self.host)

    def test_one_that_nova_does_not_know_stays_unknown(self) -> None:
        self.host.claim(with_host.make_claim(SERVER))

        self.host.describe({})

        self.assertIsNone(self.host.entries[SERVER].flavor)

    def test_what_a_move_keeps_stays_while_nova_knows_the_move(self) -> None:
        for uuid in ('migration', 'another'):
            self.host.claim(
                dataclasses.replace(
                    with_host.make_claim(uuid, 3),
                    server_uuid=SERVER if uuid == 'migration' else OTHER,
                )
            )
        self.restart()

        self.host.reconcile(['migration'])

        self.assertEqual(['migration'], list(self.host.entries))

    def test_what_a_move_keeps_stays_when_its_server_has_claimed_since(
        self,
    ) -> None:
        self.host.claim(with_host.make_claim(SERVER))
        self.host.park(SERVER, 'migration')
        before = self.host.entries
        self.host.claim(with_host.make_claim(SERVER))
        meanwhile = self.host.entries

        is_done = self.host.unpark(SERVER, 'migration', before=before)

        self.assertFalse(is_done)
        self.assertEqual({SERVER, 'migration'}, set(meanwhile))
        self.assertEqual(meanwhile, self.host.entries)

    def test_one_that_has_arrived_and_claims_again_is_left_alone(self) -> None:
        request = with_host.make_claim(SERVER)
        self.host.claim(request, is_move=True)
        before = self.host.entries
        self.host.claim(request, is_move=True)
        meanwhile = self.host.entries

        self.assertFalse(self.host.apply(SERVER, before=before))
        self.assertEqual(meanwhile, self.host.entries)
        # Placement may still refuse the new claim.
        self.host.undo(meanwhile[SERVER])
        self.assertEqual({}, self.host.entries)

    def test_one_that_has_arrived_is_applied(self) -> None:
        self.host.claim(with_host.make_claim(SERVER), is_move=True)
        before = self.host.entries

        with self.host.starting(SERVER):
            self.assertFalse(self.host.apply(SERVER, before=before))
        self.assertTrue(self.host.apply(SERVER, before=before))
        self.assertIs(
            assignment.State.APPLIED, self.host.entries[SERVER].state
        )


class UndiscoveredHostTest(with_host.HostTestCase):
    """The host has never been seen since the service started."""

    def setUp(self) -> None:
        super().setUp()
        self.failing = os.path.join(self.make_folder(), 'failing')
        with open(self.failing, 'w') as file:
            file.write('it is asleep')
        self.log = self.useFixture(fixtures.FakeLogger())
        self.host = self.make_noop_host(failure_file=self.failing)

    def test_no_server_is_built_without_what_it_asked_for(self) -> None:
        err = self.assertRaises(
            exception.CapacityExceeded,
            self.host.claim,
            with_host.make_claim(SERVER),
        )

        self.assertIn('discovery has not succeeded', str(err))
        self.assertEqual({}, self.host.entries)

    def test_a_server_that_asks_nothing_of_us_is_built(self) -> None:
        entry = self.host.claim(
            with_host.make_claim(
                SERVER,
                allocations={with_host.NODE.uuid: {'VCPU': 1}},
                requirement=builders.make_requirement(_={'CUSTOM_FOREIGN': 1}),
            )
        )

        self.assertEqual((), entry.assignments)

    def test_what_servers_held_before_the_start_is_kept(self) -> None:
        os.unlink(self.failing)
        self.host.refresh()
        self.host.claim(with_host.make_claim(SERVER))
        self.host.apply(SERVER)
        self.host.close()
        with open(self.failing, 'w') as file:
            file.write('it is asleep')

        again = self.make_noop_host(failure_file=self.failing)
        again.reconcile([SERVER])

        self.assertEqual({SERVER}, set(again.entries))
        os.unlink(self.failing)
        again.refresh()
        self.assert_consistent(again)

    def test_it_says_what_is_missing(self) -> None:
        self.assertFalse(self.host.found.is_complete)
        self.assertEqual((), self.host.providers())
        self.assertIn('it is asleep', self.log.output)


class PublishedTest(with_host.HostTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.host = self.make_noop_host(reserved_ways=1)

    def published(self) -> dict[str, host_provider.Provider]:
        return {one.name: one for one in self.host.providers()}

    def test_the_tree_hangs_below_the_compute_node(self) -> None:
        tree = self.published()

        self.assertEqual({'host1_RDT', 'host1_L3_0', 'host1_L3_1'}, set(tree))
        self.assertEqual(with_host.NODE.uuid, tree['host1_RDT'].parent_uuid)
        self.assertEqual(RDT, tree['host1_L3_1'].parent_uuid)
        for one in tree.values():
            self.assertIn(host_provider.OWNER_TRAIT, one.traits)

    def test_a_class_of_service_that_nobody_allocated_is_reserved(
        self,
    ) -> None:
        before = self.published()['host1_RDT'].inventories[CLOS]

        self.host.claim(with_host.make_claim(SERVER))

        after = self.published()['host1_RDT'].inventories[CLOS]
        self.assertEqual((2, 3), (before.reserved, after.reserved))
        self.host.release(SERVER)
        self.assertEqual(
            before, self.published()['host1_RDT'].inventories[CLOS]
        )

    def test_one_that_is_allocated_is_not_reserved_too(self) -> None:
        self.host.claim(
            with_host.make_claim(
                SERVER, allocations={DOMAINS[0]: {WAYS: 2}, RDT: {CLOS: 1}}
            )
        )

        inventory = self.published()['host1_RDT'].inventories[CLOS]
        self.assertEqual(2, inventory.reserved)
        self.assert_consistent(self.host)

    def test_ways_of_servers_are_not_reserved_but_those_of_others_are(
        self,
    ) -> None:
        self.host.claim(with_host.make_claim(SERVER, 4))
        self.host.apply(SERVER)

        self.host.refresh()

        inventory = self.published()['host1_L3_0'].inventories[WAYS]
        self.assertEqual((11, 1), (inventory.total, inventory.reserved))

    def test_the_stats_say_what_is_taken(self) -> None:
        self.host.claim(with_host.make_claim(SERVER, 4))

        document = json.loads(self.host.stats())

        self.assertEqual(
            {'w': '7fe', 't': '1e'}, document['p'][DOMAINS[0]][WAYS]['s']
        )

    def test_beside_it_is_who_holds_what(self) -> None:
        self.host.claim(with_host.make_claim(SERVER, 4))

        told = self.host.list_stats()

        self.assertEqual(self.host.stats(), told[stats.KEY])
        found = holders.decode(told[holders.KEY])
        assert found is not None
        self.assertEqual([SERVER], [*found])
        self.assertEqual(4, found[SERVER].find_allocated((DOMAINS[0], WAYS)))

    def test_beside_it_is_what_has_the_reserved_units(self) -> None:
        self.host.claim(with_host.make_claim(SERVER, 4))

        found = holders.decode_reserved(self.host.list_stats()[holders.KEY])

        self.assertEqual(
            {
                (DOMAINS[0], WAYS): reserved_units.Reserved(host=1),
                (DOMAINS[1], WAYS): reserved_units.Reserved(host=1),
                (RDT, CLOS): reserved_units.Reserved(host=2),
            },
            found,
        )

    def test_there_is_no_room_beside_it(self) -> None:
        self.host.claim(with_host.make_claim(SERVER, 4))
        document = self.host.stats()
        self.patch(stats, 'MAX_BYTES', len(json.dumps(document)) + 50)

        told = self.host.list_stats()

        self.assertEqual({stats.KEY: document, holders.KEY: ''}, told)


class BigHostTest(with_host.HostTestCase):
    class ManyLicences(Licences):
        count = 700

        def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
            return tuple(
                builders.make_definition(name=f'CUSTOM_LICENCE_{number}')
                for number in range(self.count)
            )

        def discover(self) -> tuple[host_provider.HostProvider, ...]:
            return (
                builders.make_host_provider(
                    inventories={
                        one.name: builders.make_inventory(4)
                        for one in self.definitions()
                    }
                ),
            )

    def test_stats_without_room_are_cut_and_logged_once_per_change(
        self,
    ) -> None:
        log = self.useFixture(fixtures.FakeLogger())
        plugins = load_licences(self.conf, self.ManyLicences)
        host = with_host.make_host(
            plugins, self.load_noop(), self.open_ledger()
        )

        for count, lines in ((700, 1), (10, 1), (700, 2)):
            self.ManyLicences.count = count
            host.refresh()
            for _ in range(3):
                text = host.stats()
            with self.subTest(count=count):
                self.assertEqual(count == 700, '"p"' not in text)
                self.assertEqual(lines, log.output.count('too large'))
        self.assertIn('host1', log.output)


class DefinitionsTest(with_host.HostTestCase):
    def test_ways_that_nobody_puts_into_force_are_not_sold(self) -> None:
        ledger = self.open_ledger()

        err = self.assertRaises(
            exception.InvalidConfiguration,
            with_host.make_host,
            self.load_fake(),
            {},
            ledger,
        )

        for words in ('[ext_resources] enforcers', WAYS, 'noop'):
            self.assertIn(words, str(err))

    def test_units_that_are_only_counted_need_no_enforcer(self) -> None:
        host = with_host.make_host(
            load_licences(self.conf), {}, self.open_ledger()
        )
        host.refresh()

        host.claim(
            with_host.make_claim(
                SERVER, allocations={LICENCES: {SEATS: 3}}, cpus=None
            )
        )
        host.apply(SERVER)

        self.assertEqual(1, host.view.tracked[LICENCES, SEATS].state.free)
        self.assertEqual({SERVER: 'applied'}, self.read_rows())

    def test_a_type_without_a_tracker_is_refused(self) -> None:
        class Odd(Licences):
            def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
                return (builders.make_definition(type='odd_ways'),)

        err = self.assertRaises(
            exception.InvalidConfiguration,
            with_host.make_host,
            load_licences(self.conf, Odd),
            {},
            self.open_ledger(),
        )

        self.assertIn('odd_ways', str(err))
        self.assertIn('cache_ways, count', str(err))

    def test_entries_of_a_resource_that_is_gone_stay_and_can_go(self) -> None:
        host = with_host.make_host(
            load_licences(self.conf), {}, self.open_ledger()
        )
        host.refresh()
        host.claim(
            with_host.make_claim(
                SERVER, allocations={LICENCES: {SEATS: 3}}, cpus=None
            )
        )
        host.close()

        again = self.make_noop_host()

        self.assertEqual(assignment.State.CLAIMED, again.entries[SERVER].state)
        again.release(SERVER)
        self.assertEqual({}, self.read_rows())
