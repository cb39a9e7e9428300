# SPDX-License-Identifier: Apache-2.0

"""A scheduler beside hosts with an older and a newer release of this."""

import json
from typing import Any

import fixtures

from nova_ext_resources.objects.documents import stats
from nova_ext_resources.scheduler import filters
from nova_ext_resources.scheduler import weighers
from tests.functional.scheduler import scheduling
from tests.unit import builders

#: As the releases up to commit 91d6e88 have published two domains, the first
#: without four free ways side by side.
_OLDER = (
    '{"f":{"CUSTOM_LLC_WAYS":[20,0],"CUSTOM_RDT_CLOS":[6,0]},"p":{'
    '"%(l3_0)s":{"CUSTOM_LLC_WAYS":{"c":"0-11,24-35","i":["%(rdt)s",'
    '"CUSTOM_RDT_CLOS"],"s":{"t":"0","w":"777"},"t":"cache_ways"}},'
    '"%(rdt)s":{"CUSTOM_RDT_CLOS":{"s":{"c":6,"u":0},"t":"count"}},'
    '"%(l3_1)s":{"CUSTOM_LLC_WAYS":{"c":"12-23,36-47","i":["%(rdt)s",'
    '"CUSTOM_RDT_CLOS"],"s":{"t":"0","w":"%(ways)s"},"t":"cache_ways"}}'
    '},"v":1}'
)


def make_older(ways: str = '7ff') -> str:
    return _OLDER % {
        'rdt': builders.RDT,
        'l3_0': builders.L3_0,
        'l3_1': builders.L3_1,
        'ways': ways,
    }


def make_newer(ways: int = 0x7FF) -> str:
    """Return today's document, with keys of a later release all over it."""
    document = json.loads(stats.encode(builders.make_view([0x777, ways])))
    document['later'] = {'a': [1]}
    for classes in document['p'].values():
        for record in classes.values():
            record['later'] = {'b': 2}
    # Our own documents are sorted like this, with the version at the end.
    return json.dumps(document, separators=(',', ':'))


class HalfUpgradedTest(scheduling.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.log = self.useFixture(fixtures.FakeLogger(level=20))
        self.filter = filters.ExtendedResourcesFilter()

    def keep(self, *hosts: Any) -> list[str]:
        kept = self.filter.filter_all(hosts, scheduling.make_spec())
        return [one.host for one in kept]

    def test_each_has_its_candidates_narrowed(self) -> None:
        for name, text in (('older', make_older()), ('newer', make_newer())):
            with self.subTest(host=name):
                host = scheduling.make_host(text=text, host=name)

                self.assertEqual([name], self.keep(host))
                self.assertEqual(
                    [builders.L3_1], scheduling.list_domains(host)
                )
                self.assertNotIn('Cannot use', self.log.output)

    def test_each_is_refused_when_it_is_full(self) -> None:
        full = [
            scheduling.make_host(text=text, host=name)
            for name, text in (
                ('older', make_older('0')),
                ('newer', make_newer(0)),
            )
        ]
        free = scheduling.make_host(builders.make_view([0x7FF]), host='same')

        self.assertEqual(['same'], self.keep(*full, free))

        for name in ('older', 'newer'):
            self.assertIn(f'refuses host {name}', self.log.output)

    def test_a_document_of_another_version_keeps_no_host_out(self) -> None:
        text = make_newer(0).replace('"v":1', '"v":2')
        host = scheduling.make_host(text=text, host='newer')

        self.assertEqual(['newer'], self.keep(host))
        self.assertEqual(2, len(host.allocation_candidates))

    def test_the_weigher_compares_them(self) -> None:
        weigher = weighers.ExtendedResourcesWeigher()
        older, same = (
            weigher._weigh_object(host, scheduling.make_spec())
            for host in (
                scheduling.make_host(text=make_older()),
                scheduling.make_host(builders.make_view([0x777, 0x7FF])),
            )
        )

        self.assertEqual(same, older)
