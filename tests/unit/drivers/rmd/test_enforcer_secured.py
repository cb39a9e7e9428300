# SPDX-License-Identifier: Apache-2.0

"""Both plugins of RMD in its normal mode: TLS, certificates, PAM."""

from typing import Any

from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.rmd import enforcer
from nova_ext_resources.drivers.rmd import inventory
from nova_ext_resources import exception
from nova_ext_resources.objects import host_provider
from nova_ext_resources.testing.rmd_simulator import simulator
from tests.unit.drivers.rmd.api import test_tls
from tests.unit.drivers.rmd import test_enforcer

SERVER = uuidsentinel.server


class SecuredPluginsTest(test_tls.SecuredTestCase):
    def start_rmd(
        self, client_auth: str, users: dict[str, str] | None = None
    ) -> simulator.Simulator:
        fixture = self.start_simulator(client_auth, users, plugins=('pstate',))
        made: simulator.Simulator = fixture.simulator
        self.set(url=made.url, ca_file=self.authority.path, retries=0)
        return made

    def set(self, **options: Any) -> None:
        for name, value in options.items():
            self.conf.set_override(name, value, 'ext_resources_rmd')

    def discover(self) -> dict[str, host_provider.HostProvider]:
        made = inventory.RmdInventory(self.conf.ext_resources_rmd, 'host1')
        self.addCleanup(made._client.close)
        return {one.key: one for one in made.discover()}

    def make_enforcer(self) -> enforcer.RmdEnforcer:
        made = enforcer.RmdEnforcer(self.conf.ext_resources_rmd, 'host1')
        self.addCleanup(made._client.close)
        return made

    def test_a_client_certificate_is_enough_for_everything(self) -> None:
        rmd = self.start_rmd('challenge')
        cert_file, key_file = self.authority.issue('nova')
        self.set(cert_file=cert_file, key_file=key_file)

        found = self.discover()['L3_0']
        self.make_enforcer().apply(test_enforcer.make_entry())

        self.assertLessEqual(
            {classes.WAYS, classes.PERCENT}, set(found.inventories)
        )
        self.assertIn(inventory.PSTATE_TRAIT, found.traits)
        self.assertEqual({1, 2}, rmd.group_of(SERVER).cpus)
        self.make_enforcer().release(test_enforcer.make_entry())
        self.assertEqual([], rmd.daemon.list_records())

    def test_without_one_nothing_is_found_and_nothing_applied(self) -> None:
        rmd = self.start_rmd('challenge')

        self.assertRaises(exception.DiscoveryFailed, self.discover)
        self.assertRaises(
            exception.EnforcementFailed,
            self.make_enforcer().apply,
            test_enforcer.make_entry(),
        )

        self.assertEqual([], rmd.requests)

    def test_a_user_whom_pam_knows_gives_out_ways(self) -> None:
        rmd = self.start_rmd('no', {'admin': 'secret'})
        self.set(username='admin', password='secret')

        found = self.discover()['L3_0']
        self.make_enforcer().apply(test_enforcer.make_entry())

        # As shipped, nobody may ask for more.
        self.assertEqual({classes.WAYS}, set(found.inventories))
        self.assertNotIn(inventory.PSTATE_TRAIT, found.traits)
        self.assertEqual({1, 2}, rmd.group_of(SERVER).cpus)

    def test_a_user_who_may_only_read_is_told_at_the_first_server(
        self,
    ) -> None:
        rmd = self.start_rmd('no', {'user': 'secret'})
        self.set(username='user', password='secret')
        self.discover()

        err = self.assertRaises(
            exception.EnforcementFailed,
            self.make_enforcer().apply,
            test_enforcer.make_entry(),
        )

        self.assertIn('policy.csv', str(err))
        self.assertEqual([], rmd.daemon.list_records())

    def test_what_a_reader_could_not_create_needs_no_release(self) -> None:
        self.start_rmd('no', {'user': 'secret'})
        self.set(username='user', password='secret')
        made = self.make_enforcer()
        self.assertRaises(
            exception.EnforcementFailed,
            made.apply,
            test_enforcer.make_entry(),
        )

        made.release(test_enforcer.make_entry())

    def test_what_another_user_created_is_not_released_by_a_reader(
        self,
    ) -> None:
        rmd = self.start_rmd('no', {'user': 'secret', 'admin': 'secret'})
        self.set(username='admin', password='secret')
        self.make_enforcer().apply(test_enforcer.make_entry())
        self.set(username='user')

        err = self.assertRaises(
            exception.EnforcementFailed,
            self.make_enforcer().release,
            test_enforcer.make_entry(),
        )

        self.assertIn('policy.csv', str(err))
        self.assertEqual(1, len(rmd.daemon.list_records()))
