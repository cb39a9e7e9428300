# SPDX-License-Identifier: Apache-2.0

"""Why servers are refused, by what real Nova has recorded of them."""

from typing import Any

import fixtures
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources import exception
from tests.functional.cmd.osc import explaining

#: Longer than what Nova keeps of a message.
REASON = 'none of ' + ', '.join(f'cache {n}' for n in range(60)) + ' is free'


def refuse(host: str) -> exception.CapacityExceeded:
    return exception.CapacityExceeded(
        host=host,
        consumer_uuid=uuids.server,
        shortfalls=[
            exception.Shortfall(
                rp_uuid='',
                resource_class='CUSTOM_LLC_WAYS',
                requested=4,
                available=1,
                reason=REASON,
            )
        ],
    )


class ExplainTest(explaining.ExplainTestCase):
    def refuse_all(self) -> None:
        for name, service in self.services.items():
            self.useFixture(
                fixtures.MockPatchObject(
                    service.driver._ext.host,
                    'claim',
                    side_effect=refuse(name),
                )
            )

    def boot_in_vain(self) -> Any:
        self.refuse_all()
        return self.boot(self.flavor, state='ERROR', name='refused')

    def move_in_vain(self, server: Any, **action: Any) -> None:
        """Ask for a move, and wait until the only other host has refused."""
        self.admin_api.post_server_action(server['id'], action)
        self.wait_until(
            lambda: self.list_reasons(
                server,
                'ext_resources_claim:',
                *('migrate', 'resize', 'live-migration'),
            )
        )
        self._wait_for_migration_status(server, ['error'])

    def test_the_whole_reason_of_each_host(self) -> None:
        server = self.boot_in_vain()

        found, text = self.explain('--server', 'refused')

        self.assertEqual(server['id'], found['server'])
        self.assertEqual('ERROR', found['status'])
        self.assertIn('Exceeded maximum number of retries', found['fault'])
        [action] = found['actions']
        claims = {
            one['host']: one['reason']
            for one in action['events']
            if one['event'].startswith('ext_resources_claim:')
        }
        self.assertEqual({'host1', 'host2'}, claims.keys())
        for reason in claims.values():
            self.assertIn(REASON, reason)
            self.assertNotIn(uuids.server, reason)
        self.assertIn('ext_resources_claim on host1: ', text)
        self.assertIn(REASON, ' '.join(text.split()))
        self.assertEqual([], found['hidden'])

    def test_the_whole_fault(self) -> None:
        self.flags(max_attempts=1, group='scheduler')
        server = self.boot_in_vain()
        self.assertNotIn(REASON, server['fault']['message'])

        found, _text = self.explain('--server', 'refused')

        self.assertIn(REASON, found['fault'])
        # Its owner is not shown the rest.
        found, text = self.explain('--server', 'refused', user='owner')
        self.assertTrue(found['fault'].endswith('...'), found['fault'])
        self.assertIn('the rest of reasons that end with', text)

    def test_a_live_migration_that_was_refused(self) -> None:
        server = self.boot(self.flavor, name='stays')
        self.refuse_all()
        self.move_in_vain(
            server,
            **{'os-migrateLive': {'host': None, 'block_migration': 'auto'}},
        )

        found, text = self.explain('--server', 'stays')

        self.assertEqual(
            ['live-migration'],
            [one['migration_type'] for one in found['migrations']],
        )
        self.assertIn(REASON, ' '.join(text.split()))
        self.assertEqual(2, len(found['hosts']))

    def test_the_hosts_for_its_flavor_as_it_was(self) -> None:
        server = self.boot_in_vain()
        specs = f'/flavors/{self.flavor}/os-extra_specs'
        self.admin_api.api_post(
            specs, {'extra_specs': {'resources:CUSTOM_LLC_WAYS': '2'}}
        )

        found, text = self.explain('--server', server['id'])

        self.assertEqual(4, found['requested']['CUSTOM_LLC_WAYS'])
        # By amounts, there is room: the hosts have said why they refuse.
        self.assertEqual(
            {'host1': True, 'host2': True},
            {one['host']: one['fits'] for one in found['hosts']},
        )
        self.assertIn('4 CUSTOM_LLC_WAYS', text)
        self.assertIn('Hosts that are left, step by step:', text)

    def test_an_owner_is_told_what_is_left_out(self) -> None:
        self.boot_in_vain()

        found, text = self.explain('--server', 'refused', user='owner')

        [action] = found['actions']
        self.assertEqual({''}, {one['host'] for one in action['events']})
        self.assertEqual({''}, {one['reason'] for one in action['events']})
        self.assertIn('Exceeded maximum number of retries', found['fault'])
        self.assertEqual([], found['hosts'])
        words = ' '.join(text.split())
        for hidden in (
            'Not shown: the reasons of failed events',
            'Not shown: migrations that failed',
            'Not shown: the hosts that have room',
        ):
            self.assertIn(hidden, words)
        self.assertNotIn('host1', text)
        self.assertNotIn('cache 1', text)

    def test_a_server_for_which_no_host_was_asked(self) -> None:
        self.boot(
            self.make_pinned_flavor(100), state='ERROR', name='too-large'
        )

        found, text = self.explain('--server', 'too-large')

        [action] = found['actions']
        self.assertEqual(
            ['conductor_schedule_and_build_instances'],
            [one['event'] for one in action['events']],
        )
        self.assertEqual({'amounts'}, {one['step'] for one in found['hosts']})
        self.assertIn('100 requested', text)

    def test_a_move_that_was_refused(self) -> None:
        server = self.boot(self.flavor, name='stays')
        self.refuse_all()
        self.move_in_vain(server, migrate=None)

        found, text = self.explain('--server', 'stays')

        self.assertEqual('', found['fault'])
        [move] = found['migrations']
        self.assertEqual('migration', move['migration_type'])
        self.assertIn(f'from {move["source"]} to', text)
        self.assertEqual(
            ['migrate'], [one['action'] for one in found['actions']]
        )
        self.assertIn(REASON, ' '.join(text.split()))
        self.assertEqual(4, found['requested']['CUSTOM_LLC_WAYS'])
        self.assertIn('Only amounts', found['notes'][0])

    def test_a_resize_requests_another_flavor(self) -> None:
        server = self.boot(self.flavor)
        self.refuse_all()
        self.move_in_vain(
            server, resize={'flavorRef': self.make_pinned_flavor(2)}
        )

        found, _text = self.explain('--server', server['id'])

        self.assertEqual(4, found['requested']['CUSTOM_LLC_WAYS'])
        self.assertIn('requested the new flavor', found['notes'][0])

    def test_a_server_that_another_host_took_is_not_refused(self) -> None:
        self.useFixture(
            fixtures.MockPatchObject(
                self.services['host1'].driver._ext.host,
                'claim',
                side_effect=refuse('host1'),
            )
        )
        self.boot(self.flavor, name='taken')
        self.boot(self.make_flavor(), name='plain')

        found, text = self.explain('--server', 'plain')

        self.assertNotIn('hosts', found)
        self.assertIn('No action of the server has failed.', text)
        found, _text = self.explain('--server', 'taken')
        self.assertNotIn('hosts', found)

    def test_servers_that_cannot_be_explained(self) -> None:
        gone = self.boot(self.make_flavor(), name='gone')
        self._delete_server(gone)
        twins = [self.boot(self.make_flavor(), name='twin') for _ in range(2)]

        for name in ('nothing', uuids.nothing, 'gone', gone['id']):
            for user in explaining.HEADERS:
                self.assertIn(
                    f'There is no server {name}, or it was deleted',
                    self.fail_with('--server', name, user=user),
                )
        told = self.fail_with('--server', 'twin')
        self.assertIn('2 servers have the name twin', told)
        for one in twins:
            self.assertIn(one['id'], told)

    def test_arguments_that_exclude_each_other(self) -> None:
        parser = self.make_command('admin').get_parser('explain')
        for words in (['--server', 'a', '--flavor', 'b'], []):
            self.assertRaises(SystemExit, parser.parse_args, words)
        self.assertIn(
            'Use --image only with --flavor',
            self.fail_with('--server', 'a', '--image', 'b'),
        )
