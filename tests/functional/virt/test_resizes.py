# SPDX-License-Identifier: Apache-2.0

"""Resize and cold migration with each backend and kind of server."""

import fixtures
from nova import context as nova_context

from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_provider
from tests.functional.virt import backends
from tests.functional.virt import moves
from tests.functional.virt import moving


class StaticMovesTest(backends.Static, moves.MovesSuite):
    pass


class StaticOneHostTest(backends.Static, moves.OneHostSuite):
    pass


class PinnedStaticMovesTest(backends.PinnedStatic, moves.MovesSuite):
    pass


class PinnedStaticOneHostTest(backends.PinnedStatic, moves.OneHostSuite):
    pass


class RmdMovesTest(backends.Rmd, moves.MovesSuite):
    pass


class RmdOneHostTest(backends.Rmd, moves.OneHostSuite):
    pass


class ResctrlMovesTest(backends.Resctrl, moves.MovesSuite):
    pass


class ResctrlOneHostTest(backends.Resctrl, moves.OneHostSuite):
    pass


class FloatingMovesTest(backends.Floating, moves.MovesSuite):
    pass


class FloatingOneHostTest(backends.Floating, moves.OneHostSuite):
    pass


class OtherDomainTestCase(backends.Rmd):
    """The destination picks another domain than placement did."""

    #: Where the server goes.
    DESTINATION: str

    def setUp(self) -> None:
        super().setUp()
        self.flags(cores=-1, group='quota')
        self.flags(allow_resize_to_same_host=True)
        self.small = self.make_own_flavor(2)
        self.large = self.make_own_flavor(4)

    def fill_a_domain(self) -> None:
        """Take all CPUs of a domain, and have its ways allocated first."""
        filler = self.boot(
            str(
                self._create_flavor(
                    vcpu=22,
                    memory_mb=64,
                    disk=0,
                    extra_spec={'hw:cpu_policy': 'dedicated'},
                )
            ),
            host=self.DESTINATION,
        )
        (cell,) = moving.find_instance(filler['id']).numa_topology.cells
        node = self.get_host(self.DESTINATION).node
        self.useFixture(
            moving.OneDomainFirst(
                host_provider.make_rp_uuid(node.uuid, f'L3_{cell.id}')
            )
        )

    def find_domains(self, uuid: str) -> set[str]:
        entry = self.get_host(self.DESTINATION).entries[uuid]
        return {one.rp_key for one in entry.assignments if one.is_allocated}


class OtherHostsDomainTest(OtherDomainTestCase):
    DESTINATION = 'host2'

    def test_the_allocation_follows(self) -> None:
        self.fill_a_domain()
        server = self.boot(self.small, host='host1')

        self.act(server, 'migrate', host='host2')
        server = self._wait_for_state_change(server, 'VERIFY_RESIZE')

        migration = self.find_migration(server).uuid
        applied = assignment.State.APPLIED
        self.assert_agreement(
            host1={migration: applied}, host2={server['id']: applied}
        )
        self.revert(server)
        self.assert_agreement(host1={server['id']: applied})

    def test_so_it_does_for_a_live_migration(self) -> None:
        self.fill_a_domain()
        server = self.boot(self.small, host='host1')

        self.migrate_live(server)

        self.assert_agreement(host2={server['id']: assignment.State.APPLIED})


class OwnHostsDomainTest(OtherDomainTestCase):
    HOSTS = ('host1',)
    DESTINATION = 'host1'

    def test_the_allocation_follows(self) -> None:
        """It is the server's, though the migration has the entry."""
        self.fill_a_domain()
        server = self.boot(self.small)

        self.resize(server, self.large)

        migration = self.find_migration(server).uuid
        applied = assignment.State.APPLIED
        self.assert_agreement(
            host1={migration: applied, server['id']: applied}
        )
        self.assertEqual(
            self.find_domains(migration), self.find_domains(server['id'])
        )
        self.confirm(server)
        self.assert_agreement(host1={server['id']: applied})


class FreedTest(backends.Rmd):
    """What leaves a host, the scheduler may give to the next one at once."""

    def setUp(self) -> None:
        super().setUp()
        self.flavor = self.make_pinned_flavor(6)
        # Both caches of host1 are full.
        self.first, self.second = (
            self.boot(self.flavor, host='host1') for _ in range(2)
        )
        self.publish(self.services['host1'])

    def test_by_a_confirmed_move(self) -> None:
        self.migrate(self.first)
        self.settle(self.confirm(self.first))

        server = self.migrate(self.first)

        self.assertEqual('host1', server['OS-EXT-SRV-ATTR:host'])

    def test_also_if_nova_has_asked_before_it_was_confirmed(self) -> None:
        self.migrate(self.first)
        manager = self.services['host1'].manager
        (name,) = manager.driver.get_available_nodes()
        found = manager.driver.get_available_resource(name)
        self.settle(self.confirm(self.first))
        with fixtures.MonkeyPatch(
            'nova_ext_resources.virt.driver.mixin.ExtResourcesMixin.'
            'get_available_resource',
            lambda *_args: found,
        ):
            manager.update_available_resource(nova_context.get_admin_context())

        server = self.migrate(self.first)

        self.assertEqual('host1', server['OS-EXT-SRV-ATTR:host'])

    def test_by_a_reverted_one(self) -> None:
        self.boot(self.flavor, host='host2')
        self.migrate(self.first)
        self.publish(self.services['host2'])
        self.settle(self.revert(self.first))

        server = self.migrate(self.second)

        self.assertEqual('host2', server['OS-EXT-SRV-ATTR:host'])
