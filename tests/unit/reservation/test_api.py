# SPDX-License-Identifier: Apache-2.0

"""Tests of what programs do with reservations."""

from collections.abc import Sequence
import functools
from typing import Any

from oslo_utils.fixture import uuidsentinel
from testtools import matchers

from nova_ext_resources import exception
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import planned_hold
from nova_ext_resources.reservation import amounts
from nova_ext_resources.reservation import errors
from nova_ext_resources.reservation import flavor as flavor_mod
from nova_ext_resources.reservation import host
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation import limits
from nova_ext_resources.reservation import order as order_mod
from nova_ext_resources.reservation import publication
from nova_ext_resources.reservation import state
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import publications
from nova_ext_resources.reservation.store import purge
from nova_ext_resources.reservation.store import records
from nova_ext_resources.reservation.store import slots
from nova_ext_resources.reservation.store import tables
from tests.unit.reservation import hosts
from tests.unit.reservation import sites
from tests.unit.reservation.store import stores

State = state.State

NOW, HOUR = sites.NOW, sites.HOUR


def hours(start: int, end: int | None = None) -> interval.Interval:
    last = interval.FOREVER if end is None else NOW + end * HOUR
    return interval.Interval(NOW + start * HOUR, last)


class ApiTestCase(stores.StoreTestCase):
    """Two hosts of eight CPUs; a server of flavor ``large`` takes four."""

    def setUp(self) -> None:
        super().setUp()
        self.clock = sites.Clock()
        self.site = sites.make_site()
        self.api = sites.make_reservations(self.url, self.site, self.clock)

    def create(self, name: str, **fields: Any) -> records.Record:
        order = {'name': name, 'flavor': 'large', **fields}
        return self.api.create(order)

    def assert_invalid(
        self, field: str, reason: str, call: Any, *args: Any, **kwargs: Any
    ) -> None:
        before = stores.dump(self.url)
        err = self.assertRaises(
            exception.InvalidReservation, call, *args, **kwargs
        )
        self.assertIn(field, getattr(err, 'field', ''), str(err))
        self.assertIn(reason, str(err))
        self.assertEqual(before, stores.dump(self.url))


class CreateTest(ApiTestCase):
    def test_what_is_reserved(self) -> None:
        found = self.create(
            'lease',
            servers=2,
            at_most=9,
            starts_at='+1h',
            duration='2h',
            zone='north',
            affinity='same-host',
            priority=5,
            project='red',
        )

        self.assertEqual(hours(1, 3), found.during)
        self.assertEqual(State.PENDING, found.state)
        self.assertEqual(['a'], found.hosts)
        self.assertEqual(2, len(found.servers))
        request = found.request
        self.assertEqual(
            ('large', 'red', 5, 'north'),
            (request.flavor, request.project, request.priority, request.zone),
        )

    def test_by_default_it_starts_now_and_has_no_end(self) -> None:
        found = self.create('lease')

        self.assertEqual(hours(0), found.during)
        self.assertEqual(State.ACTIVE, found.state)

    def test_amounts_in_place_of_a_flavor(self) -> None:
        found = self.api.create({'name': 'lease', 'resources': {'VCPU': 3}})

        self.assertEqual(
            {'VCPU': 3}, dict(found.request.demand.requirement.resources)
        )

    def test_dedicated_cpus_in_place_of_a_flavor(self) -> None:
        self.site.hosts = [hosts.make_host('a', PCPU=4, VCPU=4)]
        specs = {'hw:cpu_policy': 'dedicated'}
        for order in (
            {'name': 'pcpu', 'resources': {'PCPU': 2}},
            {'name': 'x', 'resources': {'VCPU': 2}, 'extra_specs': specs},
        ):
            demand = self.api.create(order).request.demand

            self.assertEqual({'PCPU': 2}, dict(demand.requirement.resources))
            self.assertEqual((2,), demand.cells)

    def test_what_hosts_have_published_is_read_with_them(self) -> None:
        database = databases.Database(self.url)
        told = publication.Publication(host='a', document='{}')
        publications.begin_round(database, sites.NOW, 50)
        publications.write(database, [told])
        publications.end_round(database, ['a'], sites.NOW)

        self.create('lease')

        self.assertEqual({'a': told}, self.site.known)

    def test_what_does_not_fit_comes_with_an_offer(self) -> None:
        self.create('first', servers=3, starts_at='+2h', ends_at='+4h')
        before = stores.dump(self.url)

        err = self.assertRaises(
            exception.ReservationRefused,
            self.create,
            'second',
            servers=2,
            starts_at='+3h',
            duration='2h',
        )

        offer: Any = getattr(err, 'refusal', None)
        self.assertEqual(1, len(offer.largest.servers))
        self.assertEqual(hours(4, 6), offer.earliest.during)
        self.assertThat(
            str(err),
            matchers.StartsWith(
                'Reservation second does not fit: 2 requested from '
                '2030-01-01T03:00:00Z to 2030-01-01T05:00:00Z.\n'
                '1 can be had in that time.\n'
                '2 can be had from 2030-01-01T04:00:00Z to '
                '2030-01-01T06:00:00Z.\n'
                'Host a: VCPU of provider a: 4 requested, 0 available: '
            ),
        )
        self.assertEqual(before, stores.dump(self.url))

    def test_the_offer_can_be_taken(self) -> None:
        self.create('first', servers=3, starts_at='+2h', ends_at='+4h')

        found = self.create(
            'second', servers=2, starts_at='+3h', duration='2h', delay='1h'
        )

        self.assertEqual(hours(4, 6), found.during)

    def test_the_same_order_again_is_the_same_reservation(self) -> None:
        date = {'starts_at': '2030-01-02T00:00Z', 'duration': '1h'}
        first = self.create('lease', **date)
        self.clock.now += HOUR

        again = self.create('lease', **date)

        self.assertEqual(first.servers, again.servers)
        self.assertRaises(
            exception.ReservationExists, self.create, 'lease', servers=2
        )

    def test_what_makes_no_sense(self) -> None:
        for field, reason, order in (
            ('starts_at', 'before now', {'starts_at': '2029-12-31T23:59Z'}),
            ('starts_at', 'no time zone', {'starts_at': '2030-01-02T00:00'}),
            ('starts_at', 'not a time', {'starts_at': 'tomorrow'}),
            ('ends_at', 'not after', {'starts_at': '+2h', 'ends_at': '+1h'}),
            ('ends_at', 'not after', {'ends_at': 'now'}),
            ('duration', 'both', {'ends_at': '+1h', 'duration': '1h'}),
            ('duration', 'not a duration', {'duration': '90'}),
            ('duration', 'hundred years', {'duration': '0s'}),
            ('delay', 'hundred years', {'delay': '99999999d'}),
            (
                'duration',
                'after the year 9999',
                {'starts_at': '9999-12-31T23:00Z', 'duration': '1h'},
            ),
            (
                'delay',
                'after the year 9999',
                {
                    'starts_at': '9999-12-31T22:00Z',
                    'duration': '1h',
                    'delay': '1h',
                },
            ),
            (
                'delay',
                'after the year 9999',
                {'starts_at': '9999-12-31T23:00Z', 'delay': '1h'},
            ),
            ('servers', 'less than the minimum', {'servers': 0}),
            ('servers', 'greater than', {'servers': 10**9}),
            ('servers', "'integer'", {'servers': 1.5}),
            (
                'at_most',
                '2 is less than 3, the least number of servers',
                {'servers': 3, 'at_most': 2},
            ),
            ('zone', 'it is empty; leave it out', {'zone': ''}),
            ('project', 'without spaces', {'project': ' '}),
            ('project', 'without spaces', {'project': 'red '}),
            ('project', 'control', {'project': 'a\x00b'}),
            ('project', '256 characters; 255 are', {'project': 256 * 'x'}),
            ('zone', 'known: north, south', {'zone': 'east'}),
            ('affinity', 'same-host', {'affinity': 'near'}),
            ('priority', 'maximum', {'priority': 5000}),
            ('expires_after', 'not a duration', {'expires_after': 'soon'}),
            ('expires_after', 'hundred years', {'expires_after': '0s'}),
            ('at_end', 'shelve', {'at_end': 'explode'}),
            ('the order', 'unexpected', {'colour': 'red'}),
            ('flavor', 'no flavor tiny', {'flavor': 'tiny'}),
            ('flavor', 'nothing to reserve', {'flavor': 'empty'}),
            ('flavor', 'or else', {'resources': {'VCPU': 1}}),
            ('extra_specs', 'flavor has its own', {'extra_specs': {}}),
        ):
            with self.subTest(**order):
                self.assert_invalid(
                    field, reason, self.create, 'lease', **order
                )

    def test_more_than_is_planned_in_a_moment(self) -> None:
        """The sentence names the bound; up to it, all is read."""
        many = {f'CUSTOM_C{one}': 1 for one in range(65)}
        groups = {f'resources{one}:CUSTOM_C': '1' for one in range(8)}
        vcpu = {'VCPU': 1}
        for field, reason, order in (
            ('resources', '65 entries; 64 are', {'resources': many}),
            (
                'extra_specs',
                '65 entries; 64 are',
                {'extra_specs': dict.fromkeys(many, 'x')},
            ),
            (
                'extra_specs',
                '9 request groups are too many (the limit is 8)',
                {'extra_specs': groups},
            ),
            (
                'extra_specs',
                '256 characters; 255 are',
                {'extra_specs': {'a': 256 * 'x'}},
            ),
            (
                'extra_specs',
                '256 characters; 255 are',
                {'extra_specs': {256 * 'x': 'a'}},
            ),
            ('VCPU', '2147483647', {'resources': {'VCPU': 2**31}}),
        ):
            for name, call in (
                ('lease', self.api.create),
                ('capacity', self.count),
            ):
                document = {'name': name, 'resources': vcpu, **order}
                with self.subTest(name=name, **order):
                    self.assert_invalid(field, reason, call, document)
        del groups['resources7:CUSTOM_C']
        self.assert_invalid(
            'resource class',
            'CUSTOM_C',
            self.api.create,
            {'name': 'lease', 'resources': vcpu, 'extra_specs': groups},
        )

    def test_a_flavor_is_as_its_operators_made_it(self) -> None:
        groups = {f'resources{one}:VCPU': '1' for one in range(1, 9)}
        self.site.flavors['wide'] = flavor_mod.Flavor(
            name='wide', memory_mb=0, extra_specs={**groups, 'a': 300 * 'x'}
        )

        found = self.create('lease', flavor='wide')

        self.assertEqual(1, len(found.servers))

    def count(self, document: order_mod.Document) -> object:
        order = {key: document[key] for key in document if key != 'name'}
        return self.api.list_fits(order, hours(0, 1))

    def test_names_that_nobody_could_type(self) -> None:
        for name in ('', ' ', ' a', 'a\n', 'a\x00b', 'x' * 251, '\udcff'):
            with self.subTest(name=name):
                self.assert_invalid('name', '', self.create, name)

    def test_an_amount_that_is_named_twice(self) -> None:
        self.assert_invalid(
            'extra_specs',
            'resources:VCPU: the amount is in resources, too',
            self.api.create,
            {
                'name': 'x',
                'resources': {'VCPU': 1},
                'extra_specs': {'resources:VCPU': '2'},
            },
        )

    def test_extra_specs_that_mean_nothing(self) -> None:
        for name in ('trat:HW_CPU_X86_AVX', 'resource', 'group_policy:x', 'x'):
            with self.subTest(name=name):
                self.assert_invalid(
                    'extra_specs',
                    f'{name} has no meaning here',
                    self.api.create,
                    {
                        'name': 'x',
                        'resources': {'VCPU': 1},
                        'extra_specs': {name: '2'},
                    },
                )

    def test_the_longest_name_leaves_room_for_the_number_of_a_server(
        self,
    ) -> None:
        found = self.create('x' * 240)

        # So often it can be given again, too.
        last = f'{found.request.key}~99999/{order_mod.MAX_SERVERS - 1}'
        self.assertLessEqual(len(last), tables.NAME.length or 0)

    def test_classes_and_traits_that_no_host_has(self) -> None:
        for field, named, order in (
            ('resource class', 'CUSTOM_X', {'resources': {'CUSTOM_X': 1}}),
            (
                'trait',
                'CUSTOM_FAST',
                {
                    'resources': {'VCPU': 1},
                    'extra_specs': {'trait:CUSTOM_FAST': 'required'},
                },
            ),
        ):
            self.assert_invalid(
                field, named, self.api.create, {'name': 'x', **order}
            )

    def test_a_flavor_that_cannot_be_planned(self) -> None:
        self.assertRaises(
            exception.InvalidExtraSpec, self.create, 'x', flavor='mixed'
        )

    def test_leap_days_and_other_zones(self) -> None:
        self.clock.now = 1835308800  # 2028-02-28T00:00Z

        found = self.create(
            'leap',
            starts_at='2028-02-29T01:30+01:30',
            ends_at='2028-03-01T00:00Z',
        )

        self.assertEqual(24 * HOUR, found.during.seconds)


class QuotaTest(ApiTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.api.quotas.set_quota('red', 'VCPU', 40)

    def test_more_is_refused_with_what_would_be_allowed(self) -> None:
        before = stores.dump(self.url)

        err = self.assertRaises(
            errors.QuotaExceeded,
            self.create,
            'lease',
            servers=2,
            duration='10h',
            project='red',
        )

        self.assertEqual(before, stores.dump(self.url))
        self.assertEqual(
            'Reservation lease exceeds what project red may reserve.\n'
            'VCPU: 80 unit-hours requested, 40 left (0 of 40 are '
            'reserved or were in the last 30 days).\n'
            '1 can be had for that time.\n'
            '2 can be had for 5h.',
            str(err),
        )
        self.create('lease', servers=2, duration='5h', project='red')

    def test_a_later_start_makes_no_difference(self) -> None:
        for start in ('now', '+1h', '+9000d'):
            self.assertRaises(
                errors.QuotaExceeded,
                self.create,
                'lease',
                starts_at=start,
                duration='11h',
                project='red',
            )

    def test_an_update_is_checked_as_well(self) -> None:
        self.create('lease', duration='10h', project='red')
        before = stores.dump(self.url)

        for changes in ({'duration': '11h'}, {'ends_at': '2031-01-01T00:00Z'}):
            self.assertRaises(
                errors.QuotaExceeded, self.api.update, 'lease', changes
            )

        self.assertEqual(before, stores.dump(self.url))
        self.api.update('lease', {'duration': '9h'})
        (use,) = self.api.quotas.list_quotas('red')
        self.assertEqual((36 * HOUR, 4 * HOUR), (use.used, use.left))

    def test_what_is_used_is_seen_as_time_goes_by(self) -> None:
        self.create('lease', duration='10h', project='red')
        self.clock.now += 2 * HOUR
        self.api.cancel('lease')

        (use,) = self.api.quotas.list_quotas()
        self.assertEqual(8 * HOUR, use.used)
        self.clock.now += 31 * 24 * HOUR
        (use,) = self.api.quotas.list_quotas()
        self.assertEqual(0, use.used)


class LimitsTest(ApiTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.limits = limits.Limits(ahead=2 * HOUR, duration=10 * HOUR)
        self.api = sites.make_reservations(
            self.url, self.site, self.clock, limits=self.limits
        )

    def create(self, name: str, **fields: Any) -> records.Record:
        return super().create(name, **{'project': 'blue', **fields})

    def test_what_has_no_project_is_not_bounded(self) -> None:
        super().create('lease', starts_at='+3h')

    def test_what_goes_beyond_is_refused(self) -> None:
        before = stores.dump(self.url)

        for order in (
            {'starts_at': '+121m', 'duration': '1h'},
            {'starts_at': '+1h', 'delay': '61m', 'duration': '1h'},
            {'duration': '601m'},
            {},
        ):
            with self.subTest(**order):
                wrong: Any = order
                self.assertRaises(
                    errors.LimitExceeded, self.create, 'lease', **wrong
                )
        self.assertEqual(before, stores.dump(self.url))

    def test_a_project_may_have_others(self) -> None:
        self.api.limits.set_limits('red', duration=interval.FOREVER)

        self.create('lease', project='red')

    def test_an_update_is_checked_as_well(self) -> None:
        self.create('lease', starts_at='+1h', duration='10h')
        before = stores.dump(self.url)

        for changes in (
            {'starts_at': '+3h', 'duration': '1h'},
            {'duration': '11h'},
        ):
            self.assertRaises(
                errors.LimitExceeded, self.api.update, 'lease', changes
            )
        self.assertEqual(before, stores.dump(self.url))
        self.api.update('lease', {'starts_at': '+2h', 'duration': '9h'})

    def test_a_change_asks_for_no_more_servers_than_it_may_have(self) -> None:
        self.create('lease', duration='1h', servers=2, at_most=3)
        self.api = sites.make_reservations(
            self.url,
            self.site,
            self.clock,
            limits=limits.Limits(servers=1),
        )

        self.assertRaises(
            errors.LimitExceeded, self.api.update, 'lease', {'at_most': 4}
        )
        self.api.update('lease', {'servers': 3})
        self.api.update('lease', {'servers': 1})
        self.assertRaises(
            errors.LimitExceeded, self.api.update, 'lease', {'servers': 2}
        )

    def test_what_has_started_counts_from_its_start(self) -> None:
        self.create('lease', duration='6h')
        self.clock.now += 5 * HOUR

        self.api.update('lease', {'ends_at': '+5h'})
        self.assertRaises(
            errors.LimitExceeded, self.api.update, 'lease', {'ends_at': '+6h'}
        )

    def test_no_time_is_offered_that_would_be_refused(self) -> None:
        for name, end in (('first', '2h'), ('second', '121m')):
            self.create(name, servers=2, zone='north', duration=end)

            err = self.assertRaises(
                exception.ReservationRefused,
                self.create,
                'other',
                zone='north',
                duration='1h',
            )

            offer: Any = getattr(err, 'refusal', None)
            self.assertEqual(name == 'first', offer.earliest is not None)
            self.api.cancel(name)


class ReasonTest(ApiTestCase):
    def test_what_is_no_reason(self) -> None:
        self.create('lease', starts_at='+2h', ends_at='+4h')
        order = {'name': 'other', 'flavor': 'large'}
        for reason in ('', ' \t\n', 'a\x00b', '\udcff', 1001 * 'x'):
            for call, *args in (
                (self.api.create, order),
                (self.api.update, 'lease', {'servers': 2}),
                (self.api.cancel, 'lease'),
            ):
                with self.subTest(reason=reason, call=call):
                    self.assert_invalid(
                        'reason',
                        '',
                        functools.partial(call, *args, reason=reason),
                    )

    def test_any_sentence_is_one(self) -> None:
        self.create('lease')
        for reason in ('-', ' two\nlines ', 'не нужен 🛑', 1000 * 'x'):
            self.api.update('lease', {'ends_at': '+9d'}, reason=reason)
            self.api.update('lease', {'ends_at': '+8d'}, reason=reason)

            self.assertEqual(reason, self.api.get('lease').last.reason)


class UpdateTest(ApiTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.create('lease', servers=2, starts_at='+2h', ends_at='+4h')

    def test_another_time(self) -> None:
        for changes, wanted in (
            ({'ends_at': '+5h'}, hours(2, 5)),
            ({'starts_at': '+3h'}, hours(3, 5)),
            ({'duration': '1h'}, hours(3, 4)),
            ({'starts_at': '+1h', 'duration': '4h'}, hours(1, 5)),
        ):
            with self.subTest(**changes):
                found = self.api.update('lease', changes)

                self.assertEqual(wanted, found.during)
                self.assertEqual(2, len(found.servers))

    def test_an_end_that_no_calendar_has(self) -> None:
        self.assert_invalid(
            'duration',
            'after the year 9999',
            self.api.update,
            'lease',
            {'starts_at': '9999-12-31T23:59Z', 'duration': '1m'},
        )

    def test_another_number(self) -> None:
        more = self.api.update('lease', {'servers': 4})
        fewer = self.api.update('lease', {'servers': 1, 'at_most': 3})

        self.assertEqual(4, len(more.servers))
        self.assertEqual(3, len(fewer.servers))
        self.assertEqual(hours(2, 4), fewer.during)

    def test_another_flavor_or_amounts(self) -> None:
        self.site.flavors['small'] = flavor_mod.Flavor(name='small', vcpus=2)
        for changes, flavor, amount in (
            ({'flavor': 'small'}, 'small', 2),
            ({'resources': {'VCPU': 3}}, '', 3),
            ({'flavor': 'large', 'servers': 3}, 'large', 4),
        ):
            with self.subTest(**changes):
                found = self.api.update('lease', changes)

                self.assertEqual(flavor, found.request.flavor)
                requirement = found.request.demand.requirement
                self.assertEqual({'VCPU': amount}, dict(requirement.resources))
                self.assertEqual(
                    {amount},
                    {
                        one.amount
                        for server in found.servers
                        for one in server.assignments
                    },
                )
                self.assertEqual(hours(2, 4), found.during)
        # Nothing of what it had before is left in the way.
        self.create('other', starts_at='+2h', ends_at='+4h')

    def test_another_zone_and_affinity(self) -> None:
        for changes, hosts_ in (
            ({'zone': 'south'}, ['b']),
            ({'zone': None, 'affinity': 'different-hosts'}, ['a', 'b']),
            ({'affinity': 'same-host'}, ['a']),
        ):
            with self.subTest(**changes):
                found = self.api.update('lease', changes)

                self.assertEqual(hosts_, found.hosts)
                self.assertEqual(changes.get('zone'), found.request.zone)

    def test_a_flavor_that_does_not_fit_changes_nothing(self) -> None:
        self.site.flavors['huge'] = flavor_mod.Flavor(name='huge', vcpus=8)
        before = stores.dump(self.url)

        err = self.assertRaises(
            exception.ReservationRefused,
            self.api.update,
            'lease',
            {'flavor': 'huge', 'servers': 3},
        )

        self.assertIn('2 can be had in that time', str(err))
        self.assertEqual(before, stores.dump(self.url))

    def test_another_flavor_counts_against_the_quota(self) -> None:
        self.create('red', starts_at='+2h', ends_at='+4h', project='red')
        self.api.quotas.set_quota('red', 'VCPU', 8)

        self.assertRaises(
            errors.QuotaExceeded,
            self.api.update,
            'red',
            {'resources': {'VCPU': 5}},
        )
        self.api.update('red', {'resources': {'VCPU': 3}})
        (use,) = self.api.quotas.list_quotas('red')
        self.assertEqual(6 * HOUR, use.used)

    def test_what_servers_cannot_need(self) -> None:
        for field, reason, changes in (
            ('flavor', 'no flavor tiny', {'flavor': 'tiny'}),
            ('flavor', 'nothing to reserve', {'flavor': 'empty'}),
            ('flavor', 'or else', {'extra_specs': {}}),
            ('flavor', 'or else', {'flavor': 'x', 'resources': {'VCPU': 1}}),
            ('resource class', 'CUSTOM_X', {'resources': {'CUSTOM_X': 1}}),
            ('zone', 'known: north, south', {'zone': 'east'}),
            ('zone', 'it is empty', {'zone': ''}),
            ('affinity', 'same-host', {'affinity': 'near'}),
            ('the order', 'unexpected', {'project': 'red'}),
        ):
            with self.subTest(**changes):
                self.assert_invalid(
                    field, reason, self.api.update, 'lease', changes
                )

    def test_what_comes_of_its_servers(self) -> None:
        self.api.update('lease', {'expires_after': '30m', 'at_end': 'shelve'})
        found = self.api.update('lease', {'ends_at': '+5h'})

        self.assertEqual(1800, found.request.expires_after)
        self.assertEqual('shelve', found.request.at_end)
        self.assertEqual(hours(2, 5), found.during)

    def test_what_does_not_fit_changes_nothing(self) -> None:
        self.create('other', servers=3, starts_at='+4h', ends_at='+9h')
        before = stores.dump(self.url)

        err = self.assertRaises(
            exception.ReservationRefused,
            self.api.update,
            'lease',
            {'ends_at': '+5h'},
        )

        self.assertIn('1 can be had in that time', str(err))
        self.assertEqual(before, stores.dump(self.url))

    def test_what_has_started_gets_another_end(self) -> None:
        self.clock.now += 3 * HOUR

        found = self.api.update('lease', {'ends_at': '+3h'})

        self.assertEqual(hours(2, 6), found.during)
        self.assertEqual(State.ACTIVE, found.state)

    def test_what_runs_is_not_moved(self) -> None:
        self.clock.now += 3 * HOUR

        for changes in (
            {'servers': 3},
            {'resources': {'VCPU': 1}},
            {'zone': 'north'},
            {'affinity': 'same-host'},
            {'starts_at': '+30m'},
            {'delay': '1h'},
        ):
            self.assert_invalid(
                'the change', 'started', self.api.update, 'lease', changes
            )

    def test_it_cannot_start_in_the_past(self) -> None:
        self.clock.now += HOUR

        self.assert_invalid(
            'starts_at',
            'before now',
            self.api.update,
            'lease',
            {'starts_at': '2030-01-01T00:30Z'},
        )

    def test_it_cannot_end_in_the_past(self) -> None:
        self.clock.now += 3 * HOUR

        for changes in (
            {'ends_at': 'now'},
            {'duration': '1h'},
            {'ends_at': '2030-01-01T02:30Z'},
        ):
            with self.subTest(**changes):
                self.assert_invalid(
                    'ends_at',
                    'is not after now (2030-01-01T03:00:00Z); write a later '
                    'time, or cancel the reservation',
                    self.api.update,
                    'lease',
                    changes,
                )

    def test_what_cannot_be_changed(self) -> None:
        for changes in ({}, {'flavor': 'small'}, {'servers': 'many'}):
            self.assert_invalid('', '', self.api.update, 'lease', changes)

    def change_meanwhile(self, *ends: str) -> None:
        """Let another process change the end, each time before ours does."""
        other = sites.make_reservations(self.url, self.site, self.clock)
        admission, left = self.api._survey.find_admission(), list(ends)
        replace = admission.replace

        def change_and_replace(*args: Any, **kwargs: Any) -> Any:
            if left:
                other.update('lease', {'ends_at': left.pop(0)})
            return replace(*args, **kwargs)

        self.patch(admission, 'replace', change_and_replace)

    def test_a_change_of_another_process_meanwhile_is_kept(self) -> None:
        self.change_meanwhile('+6h', '+7h')

        found = self.api.update('lease', {'servers': 3})

        self.assertEqual(hours(2, 7), found.during)
        self.assertEqual(3, len(found.servers))
        self.assertEqual(4, len(self.api.list_changes('lease')))

    def test_changes_of_others_without_end(self) -> None:
        self.change_meanwhile(*(f'+{hour}h' for hour in range(5, 30)))

        err = self.assertRaises(
            exception.RevisionMoved, self.api.update, 'lease', {'servers': 3}
        )

        self.assertIn('reservation lease during each attempt', str(err))
        self.assertEqual(hours(2, 14), self.api.get('lease').during)

    def test_what_is_over(self) -> None:
        self.clock.now += 4 * HOUR

        self.assertRaises(
            exception.StateRefused, self.api.update, 'lease', {'servers': 1}
        )

    def test_each_change_has_its_reason(self) -> None:
        self.api.update('lease', {'servers': 1}, reason='less work')

        changes = self.api.list_changes('lease')

        self.assertEqual(
            ['created', 'less work'], [one.reason for one in changes]
        )


class TakenTestCase(ApiTestCase):
    """Servers of Nova have taken some slots."""

    def take(self, name: str, server: str) -> None:
        slots.take(
            databases.Database(self.url),
            name,
            server,
            lambda held: next(one for one in held if one.consumer is None),
            now=NOW,
        )


class TakenTest(TakenTestCase):
    def test_the_site_hears_what_is_taken_and_not_over(self) -> None:
        for name, end in (('lease', '+2h'), ('soon', '+1h')):
            self.create(name, servers=2, ends_at=end)
            self.take(name, f'server of {name}')
        self.clock.now += HOUR
        self.api = sites.make_reservations(self.url, self.site, self.clock)

        self.create('other')

        lease = self.api.get('lease').servers
        # What may hold the room of slots for servers to come is known, too.
        self.assertEqual(
            {
                'server of lease': lease[0].places,
                **{
                    planned_hold.make_consumer(one.key): one.places
                    for one in lease
                },
            },
            self.site.taken,
        )

    def test_fewer_servers_are_those_that_are_taken(self) -> None:
        self.create('lease', servers=3, ends_at='+2h')
        for number in range(3):
            self.take('lease', f'server {number}')
        first = self.api.get('lease').servers[0]
        slots.free(databases.Database(self.url), 'lease', first)

        found = self.api.update('lease', {'servers': 2})

        self.assertEqual(
            ['server 1', 'server 2'], [one.consumer for one in found.servers]
        )


class StayingTest(TakenTestCase):
    """A server stays when its slot is over; it holds half of host a."""

    def setUp(self) -> None:
        super().setUp()
        self.reserve('lease', 'north')

    def reserve(self, name: str, zone: str, **order: Any) -> None:
        self.create(name, servers=2, ends_at='+1h', zone=zone, **order)
        self.take(name, f'server of {name}')
        self.api.prepare()

    def test_it_is_there_after_the_end(self) -> None:
        self.clock.now += HOUR

        self.assert_fits(1, 'north')

    def test_it_is_there_when_the_reservation_is_cancelled(self) -> None:
        self.api.cancel('lease')

        self.assert_fits(1, 'north')

    def test_it_is_gone_if_the_hosts_say_so(self) -> None:
        self.api.cancel('lease')
        self.api = sites.make_reservations(self.url, self.site, self.clock)

        self.assert_fits(2, 'north')

    def test_others_go_at_the_end(self) -> None:
        self.reserve('other', 'south', at_end='delete')
        self.clock.now += HOUR

        self.assert_fits(2, 'south')

    def test_none_is_left_in_a_slot_that_was_freed(self) -> None:
        found = self.api.get('lease').servers[0]
        slots.free(databases.Database(self.url), 'lease', found)
        self.api.prepare()
        self.api.cancel('lease')

        self.assert_fits(2, 'north')

    def test_a_slot_that_goes_on_has_all(self) -> None:
        self.api.update('lease', {'ends_at': '+2h'})
        self.clock.now += HOUR

        self.assert_fits(0, 'north')

        self.clock.now += HOUR
        self.assert_fits(1, 'north')
        # Clocks may be set back.
        self.clock.now -= HOUR
        self.api.prepare()
        self.assert_fits(0, 'north')

    def assert_fits(self, number: int, zone: str) -> None:
        """Check how many servers fit in the next half an hour."""
        now = int(self.clock.now)
        [(_part, fits), *_later] = self.api.list_fits(
            {'flavor': 'large'},
            interval.Interval(now, now + HOUR // 2),
            zone=zone,
        )
        self.assertEqual(number, fits)


class SlowSiteTest(ApiTestCase):
    """To read the hosts takes half an hour."""

    def setUp(self) -> None:
        super().setUp()
        self.create('lease', servers=2, starts_at='+20m', ends_at='+4h')
        list_hosts = self.site.list_hosts

        def list_slowly(*known: Any) -> Sequence[host.Host]:
            self.clock.now += HOUR / 2
            return list_hosts(*known)

        self.patch(self.site, 'list_hosts', list_slowly)
        self.api = sites.make_reservations(self.url, self.site, self.clock)

    def test_now_is_when_the_hosts_are_known(self) -> None:
        found = self.create('other', duration='1h')

        self.assertEqual(NOW + HOUR // 2, found.during.start)
        self.assertEqual(HOUR, found.during.seconds)

    def test_a_start_that_is_over_by_then(self) -> None:
        self.assert_invalid(
            'starts_at',
            'before now',
            self.create,
            'other',
            starts_at='2030-01-01T00:20Z',
        )

    def test_what_has_started_meanwhile_is_not_moved_for_others(self) -> None:
        # On the other host there is room for both of them.
        self.assertEqual(['a'], self.api.get('lease').hosts)

        self.assertRaises(
            exception.ReservationRefused,
            self.create,
            'other',
            servers=2,
            ends_at='+1h',
            zone='north',
        )

        self.assertEqual(['a'], self.api.get('lease').hosts)

    def test_what_has_started_meanwhile_does_not_grow(self) -> None:
        self.assert_invalid(
            'the change', 'started', self.api.update, 'lease', {'servers': 3}
        )


class UnknownZonesTest(ApiTestCase):
    """Nova does not say the zones: a host may be in any."""

    def setUp(self) -> None:
        super().setUp()
        self.create('south', zone='south', starts_at='+1h', ends_at='+2h')
        self.site.has_zones = False

    def test_what_asks_for_a_zone_is_put_off(self) -> None:
        before = stores.dump(self.url)
        demand = {'flavor': 'large'}
        for name, call in (
            ('create', lambda: self.create('one', zone='south')),
            ('update', lambda: self.api.update('south', {'ends_at': '+3h'})),
            (
                'amounts',
                lambda: self.api.list_amounts(hours(0, 1), zone='south'),
            ),
            (
                'fits',
                lambda: self.api.list_fits(demand, hours(0, 1), zone='south'),
            ),
            (
                'chart',
                lambda: self.api.make_chart(hours(0, 1), by_zone=True),
            ),
        ):
            with self.subTest(name):
                self.assertRaises(exception.ComputeUnavailable, call)

        self.assertEqual(before, stores.dump(self.url))

    def test_what_asks_for_none_goes_on(self) -> None:
        made = self.create('one', starts_at='+1h')
        changed = self.api.update('one', {'servers': 2})
        self.api.cancel('south')

        self.assertEqual(State.PENDING, made.state)
        self.assertEqual(2, len(changed.servers))
        self.assertEqual(2, len(self.api.list_amounts(hours(0, 1))))


class CancelTest(ApiTestCase):
    def test_what_is_left_of_its_time_is_free(self) -> None:
        self.create('lease', servers=4, ends_at='+4h')
        self.clock.now += HOUR

        found = self.api.cancel('lease', reason='done')

        self.assertEqual(State.CANCELLED, found.state)
        self.assertEqual('done', found.last.reason)
        again = self.create('again', servers=4, ends_at='+3h')
        self.assertEqual(hours(1, 4), again.during)

    def test_placement_is_not_needed(self) -> None:
        self.create('lease')
        elsewhere = sites.make_reservations(
            self.url, sites.NoSite(), self.clock
        )

        elsewhere.cancel('lease')

        self.assertEqual(State.CANCELLED, elsewhere.get('lease').state)
        self.assertEqual(2, len(elsewhere.list_changes('lease')))

    def test_what_is_over(self) -> None:
        self.create('ended', ends_at='+1h')
        self.create('gone')
        self.api.cancel('gone')
        self.clock.now += HOUR

        for key in ('ended', 'gone'):
            self.assertRaises(exception.StateRefused, self.api.cancel, key)

    def test_one_that_there_is_not(self) -> None:
        for call in (
            lambda: self.api.cancel('x'),
            lambda: self.api.get('x'),
            lambda: self.api.list_changes('x'),
            lambda: self.api.update('x', {'servers': 1}),
        ):
            self.assertRaises(exception.ReservationNotFound, call)

    def test_the_name_is_free_once_it_is_over(self) -> None:
        self.create('lease')
        self.api.cancel('lease')

        again = self.create('lease', servers=2)

        self.assertEqual('lease~2', again.request.key)
        self.assertEqual(state.State.CANCELLED, self.api.get('lease').state)
        purge.purge(databases.Database(self.url), NOW)
        self.assertRaises(
            exception.ReservationExists, self.create, 'lease', servers=3
        )
        self.api.cancel('lease~2')
        self.assertEqual('lease~3', self.create('lease').request.key)


class NameTest(ApiTestCase):
    """What a name stands for, whoever has it and whether it is over."""

    def set_up(self, *made: tuple[str, str | None]) -> None:
        """Make reservations, each of a project, and cancel some of them.

        :param made: project and why it is cancelled
        """
        for project, reason in made:
            found = self.create('night', **_have(project))
            if reason:
                self.api.cancel(found.request.key, reason=reason)

    def test_each_project_has_it_once(self) -> None:
        self.set_up(('red', None), ('blue', None), ('', None))

        self.assertEqual(
            ['night', 'night~2', 'night~3'],
            sorted(one.request.key for one in self.api.list_reservations()),
        )
        for project in ('red', 'blue', ''):
            with self.subTest(project=project):
                self.assertRaises(
                    exception.ReservationExists,
                    self.create,
                    'night',
                    servers=2,
                    **_have(project),
                )
                again = self.create('night', **_have(project))
                self.assertEqual(project, again.request.project)
        self.assertEqual(3, len(self.api.list_reservations()))

    def test_what_is_over_by_the_clock_alone_has_it_no_more(self) -> None:
        self.create('night', ends_at='+1h')
        self.clock.now += HOUR

        self.assertEqual('night~2', self.create('night').request.key)

    def test_similar_names_and_ids_are_others(self) -> None:
        odd = ('night%', 'night_', 'nightly', 'nigh', 'Night', 'night\\', 'é')
        for name in (*odd, uuidsentinel.lease):
            with self.subTest(name=name):
                self.assertEqual(name, self.create(name).request.key)
                self.api.cancel(name)
                if name in odd:
                    again = self.create(name).request.key
                    self.assertEqual(f'{name}~2', again)
                    self.api.cancel(again)
        self.assertEqual('night', self.create('night').request.key)
        # Others know it by this id alone.
        self.assertRaises(
            exception.ReservationExists, self.create, uuidsentinel.lease
        )

    def test_a_number_at_its_end_is_ours(self) -> None:
        self.assert_invalid(
            'name', 'leave this ending out', self.create, 'night~12'
        )
        self.create('night~x')

    def test_which_one_is_meant(self) -> None:
        cases: tuple[tuple[list[tuple[str, str | None]], str, str], ...] = (
            ([], 'night', 'night'),
            ([('red', None)], 'night', 'night'),
            ([('red', 'over')], 'night', 'night'),
            ([('red', 'over'), ('red', None)], 'night', 'night~2'),
            ([('red', 'over'), ('red', None)], 'night~1', 'night'),
            ([('red', 'over'), ('red', None)], 'night~2', 'night~2'),
            ([('red', 'over'), ('red', None)], 'night~3', 'night~3'),
            ([('red', None), ('blue', 'over')], 'night', 'night'),
        )
        for made, name, key in cases:
            with self.subTest(made=made, name=name):
                self.set_up(*made)

                self.assertEqual(key, self.api.find_key(name))
                self.empty()

    def test_one_that_stands_for_several_is_refused_with_all_of_them(
        self,
    ) -> None:
        for made, named in (
            (
                [('red', 'over'), ('red', None), ('', None)],
                'night~2 of red (active), night~3 of no project (active)',
            ),
            (
                [('red', None), ('', None)],
                'night~1 of red (active), night~2 of no project (active)',
            ),
            (
                [('red', 'over'), ('red', 'over')],
                'night~1 of red (cancelled), night~2 of red (cancelled)',
            ),
        ):
            with self.subTest(named=named):
                self.set_up(*made)

                self.assert_invalid(
                    'name', f'write one of {named}', self.api.find_key, 'night'
                )
                self.empty()

    def empty(self) -> None:
        """Let no name ever have been used."""
        for one in self.api.list_reservations():
            if not one.state.is_final:
                self.api.cancel(one.request.key)
        purge.purge(databases.Database(self.url), NOW)


def _have(project: str) -> dict[str, str]:
    return {'project': project} if project else {}


class ListTest(ApiTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.create('early', ends_at='+2h', project='red')
        self.create('late', starts_at='+3h', ends_at='+4h')
        self.create('gone')
        self.api.cancel('gone')

    def list_names(self, **wanted: Any) -> list[str]:
        found = self.api.list_reservations(**wanted)
        return [one.request.key for one in found]

    def test_all_or_some(self) -> None:
        self.assertEqual(['early', 'gone', 'late'], self.list_names())
        self.assertEqual(
            ['late'],
            self.list_names(during=hours(2, 4), wanted=[State.PENDING]),
        )
        self.assertEqual(['early'], self.list_names(project='red'))
        self.assertEqual(['early'], self.list_names(wanted=[State.ACTIVE]))
        self.clock.now += 2 * HOUR
        self.assertEqual([], self.list_names(wanted=[State.ACTIVE]))

    def test_those_of_a_zone_asked_for_it_or_are_there(self) -> None:
        self.create('north', starts_at='+9h', duration='1h', zone='north')
        self.create('south', starts_at='+9h', duration='1h', zone='south')
        self.create('both', servers=3, starts_at='+11h', duration='1h')
        self.create('other', starts_at='+13h', duration='1h', zone='south')
        self.api.cancel('other')

        for zone, wanted in (
            ('north', ['north', 'both']),
            ('south', ['south', 'both', 'other']),
        ):
            found = self.list_names(zone=zone, during=hours(9))
            self.assertEqual(wanted, found)
        self.assertEqual(
            ['other'], self.list_names(zone='south', wanted=[State.CANCELLED])
        )

    def test_a_zone_that_there_is_not(self) -> None:
        self.assert_invalid(
            'zone', 'known: north, south', self.list_names, zone='east'
        )
        self.site.has_zones = False
        self.assertRaises(
            exception.ComputeUnavailable, self.list_names, zone='north'
        )


class CapacityTest(ApiTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.create('lease', servers=3, starts_at='+2h', ends_at='+4h')

    def list_amounts(self, **wanted: Any) -> list[tuple[Any, ...]]:
        return [
            (
                one.zone,
                (one.during.start - NOW) // HOUR,
                one.total,
                one.used,
                one.reserved,
                one.available,
            )
            for one in self.api.list_amounts(hours(0, 6), **wanted)
        ]

    def test_amounts_by_zone_and_time(self) -> None:
        self.assertEqual(
            [
                ('north', 0, 8, 0, 0, 8),
                ('north', 2, 8, 0, 8, 0),
                ('north', 4, 8, 0, 0, 8),
                ('south', 0, 8, 0, 0, 8),
                ('south', 2, 8, 0, 4, 4),
                ('south', 4, 8, 0, 0, 8),
            ],
            self.list_amounts(),
        )

    def test_steps_show_the_worst_of_each(self) -> None:
        self.assertEqual(
            [('south', 0, 8, 0, 4, 4), ('south', 3, 8, 0, 4, 4)],
            self.list_amounts(zone='south', step=3 * HOUR),
        )

    def test_how_many_servers_fit_when(self) -> None:
        found = self.api.list_fits({'flavor': 'large'}, hours(1, 5))
        south = self.api.list_fits(
            {'resources': {'VCPU': 2}},
            hours(1, 5),
            zone='south',
            step=4 * HOUR,
        )

        self.assertEqual(
            [(hours(1, 2), 4), (hours(2, 4), 1), (hours(4, 5), 4)], found
        )
        self.assertEqual([(hours(1, 5), 2)], south)

    def test_only_so_many_servers_are_counted(self) -> None:
        self.site.hosts = [
            hosts.make_host(f'{one}', VCPU=10**6) for one in range(2)
        ]
        self.api = sites.make_reservations(self.url, self.site, self.clock)
        order = {'resources': {'VCPU': 1}}

        self.assertEqual(
            [1000], [most for _part, most in self.count(order, step=6 * HOUR)]
        )

    def test_only_so_many_servers_are_counted_in_all_parts(self) -> None:
        self.assertEqual(50 * amounts.MAX_SERVERS, amounts.MAX_COUNTED)
        self.patch(amounts, 'MAX_SERVERS', 2)
        self.patch(amounts, 'MAX_COUNTED', 2 * 43)
        order = {'resources': {'VCPU': 1}}

        self.assertEqual(43, len(self.count(order, step=HOUR // 7)))
        self.assert_invalid(
            'step',
            'would count more than 86 servers',
            self.count,
            order,
            step=HOUR // 9,
        )

    def test_only_so_many_times_servers_are_counted(self) -> None:
        order = {'resources': {'VCPU': 10**6}}
        for parts in (200, 201):
            call = functools.partial(
                self.api.list_fits,
                order,
                interval.Interval(NOW, NOW + parts),
                step=1,
            )
            if parts == 200:
                self.assertEqual(200, len(call()))
            else:
                self.assert_invalid('step', 'the limit is 200', call)

    def count(
        self, order: dict[str, Any], step: int
    ) -> list[tuple[interval.Interval, int]]:
        return self.api.list_fits(order, hours(0, 6), step=step)

    def test_what_other_processes_reserve_is_seen(self) -> None:
        other = sites.make_reservations(self.url, self.site, self.clock)
        other.list_amounts(hours(0, 6))
        self.create('more', starts_at='+5h')

        found = other.list_amounts(hours(5, 6), zone='north')

        self.assertEqual([4], [one.reserved for one in found])

    def test_what_makes_no_sense(self) -> None:
        for field, reason, call in (
            ('zone', 'known: north', lambda: self.list_amounts(zone='x')),
            ('step', 'shorter period', lambda: self.list_amounts(step=1)),
            (
                'step',
                'shorter period',
                lambda: self.api.list_fits(
                    {'flavor': 'large'}, hours(0, 6), step=1
                ),
            ),
            (
                'flavor',
                'no flavor x',
                lambda: self.api.list_fits({'flavor': 'x'}, hours(0, 6)),
            ),
            (
                'resource class',
                'PCPU',
                lambda: self.api.list_fits(
                    {'resources': {'PCPU': 1}}, hours(0, 6)
                ),
            ),
        ):
            self.assert_invalid(field, reason, call)


class ChartTest(ApiTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.create('first', servers=3, ends_at='+4h')
        self.create('second', starts_at='+2h', ends_at='+6h')
        self.create('third', servers=2, starts_at='+4h')

    def draw(self, **wanted: Any) -> dict[str, list[list[tuple[str, int]]]]:
        chart = self.api.make_chart(hours(1, 12), **wanted)
        return {
            row.name: [
                [(bar.key, bar.servers) for bar in lane] for lane in row.lanes
            ]
            for row in chart.rows
        }

    def test_a_row_for_each_host(self) -> None:
        self.assertEqual(
            {
                'a': [[('first', 2), ('third', 2)]],
                'b': [[('first', 1)], [('second', 1)]],
            },
            self.draw(),
        )

    def test_a_row_for_each_zone(self) -> None:
        self.assertEqual(['north', 'south'], [*self.draw(by_zone=True)])

    def test_hosts_are_drawn_without_placement(self) -> None:
        self.api = sites.make_reservations(
            self.url, sites.NoSite(), self.clock
        )

        self.assertEqual(['a', 'b'], [*self.draw()])


class PoolTest(ApiTestCase):
    """Two hosts use ten seats of one pool."""

    def setUp(self) -> None:
        super().setUp()
        pool = hosts.make_provider('pool', CUSTOM_SEAT=10)
        self.site = sites.FixedSite(
            [
                host.make_host(
                    name,
                    [hosts.make_provider(name, VCPU=8), pool],
                    host_view.HostView(),
                )
                for name in ('a', 'b')
            ]
        )
        self.api = sites.make_reservations(self.url, self.site, self.clock)

    def order(self, name: str, seats: int, **fields: Any) -> Any:
        return {
            'name': name,
            'resources': {'VCPU': 1, 'CUSTOM_SEAT': seats},
            **fields,
        }

    def refuse(self, call: Any, *args: Any) -> str:
        before = stores.dump(self.url)
        err = self.assertRaises(exception.ReservationRefused, call, *args)
        self.assertEqual(before, stores.dump(self.url))
        return str(err)

    def test_servers_on_several_hosts_are_refused_together(self) -> None:
        self.api.create(self.order('first', 3, duration='2h'))
        order = self.order(
            'both', 5, servers=2, affinity='different-hosts', duration='1h'
        )

        text = self.refuse(self.api.create, order)

        self.assertIn('1 can be had in that time', text)
        self.assertIn(
            '2 can be had from 2030-01-01T02:00:00Z to 2030-01-01T03:00:00Z',
            text,
        )

    def test_a_later_end_is_for_all_servers(self) -> None:
        order = self.order(
            'runs', 5, servers=2, affinity='different-hosts', duration='2h'
        )
        self.api.create(order)
        self.api.create(self.order('other', 5, starts_at='+3h'))
        self.clock.now += HOUR

        text = self.refuse(self.api.update, 'runs', {'duration': '4h'})

        self.assertIn('1 can be had in that time', text)
