# SPDX-License-Identifier: Apache-2.0

"""What the page of IFA005 says of our API is so."""

import json
import pathlib
import re
from typing import Any

from nova_ext_resources.reservation.blazar import options
from nova_ext_resources.reservation import event
from nova_ext_resources.reservation import flavor
from nova_ext_resources.reservation import interval
from nova_ext_resources.reservation.manager import shortages
from nova_ext_resources.reservation import order
from nova_ext_resources.reservation import subscription
from tests.blazar import test_rest
from tests.unit.reservation import hosts

ROOT = pathlib.Path(__file__).parents[2]
PAGE = ROOT / 'doc' / 'source' / 'reference' / 'ifa005.rst'

_BLOCK = re.compile(
    r'^\.\. code-block:: (\w+)\n\n((?:   .*\n|\n(?=   ))+)', re.MULTILINE
)
_ROW = re.compile(r'^   \* - (.*)\n     -(.*)\n     -', re.MULTILINE)
_WORD = re.compile(r'``([^`]+)``')

#: What IFA005 has of compute, as section F of the checklist names it.
IFA005 = frozenset(
    """
    zoneId computeResourceTypeId threshold value created
    capacityChangeSubscriptionId resourceCriteria virtualCpu cpuArchitecture
    numVirtualCpu attributeSelector timePeriod startTime stopTime lastUpdate
    capacityInformation endTime expiryTime computePoolReservation numCpuCores
    numVcInstances virtualMemSize computeAttributes
    virtualizationContainerReservation containerId containerFlavor flavorId
    accelerationCapability virtualMemory storageAttributes
    virtualNetworkInterface affinityConstraint antiAffinityConstraint
    locationConstraints resourceGroupId reservationId reservationStatus
    computePoolReserved virtualizationContainerReserved queryReservationFilter
    queryResult changeId vimId changeType changedReservationData inputFilter
    reservationChangeSubscriptionId notificationId capacityChangeTime
    virtualCpuOversubscriptionPolicy
    """.split()
)

#: Words of queries and of options, which no document has.
_OTHERS = {'from', 'until', 'scope', 'state', 'step', 'reservations'}
_CLASSES = {'VCPU', 'PCPU', 'MEMORY_MB', 'DISK_GB'}


class PageTest(test_rest.RestTestCase):
    """Two hosts of 32 CPUs in a zone each."""

    def setUp(self) -> None:
        super().setUp()
        self.site.hosts = [
            hosts.make_host(name, zone, VCPU=32, MEMORY_MB=65536)
            for name, zone in (('a', 'north'), ('b', 'south'))
        ]
        self.site.flavors['m1.large'] = flavor.Flavor(
            name='m1.large', vcpus=4, memory_mb=8192
        )
        self.page = PAGE.read_text(encoding='utf-8')
        #: All keys of what was sent and answered.
        self.words: set[str] = set()
        #: What the page calls ID: the first one.
        self.made = ''

    def learn(self, document: Any) -> None:
        if isinstance(document, dict):
            self.words |= document.keys()
            for one in document.values():
                self.learn(one)
        elif isinstance(document, list):
            for one in document:
                self.learn(one)

    def send(self, text: str) -> Any:
        """Send a request of the page, as whoever may; return the answer."""
        line, _blank, body = text.partition('\n')
        method, path = line.split()
        document = json.loads(body) if body.strip() else None
        is_operator = 'amounts' in path or 'all_projects' in text
        answer = self.ask(
            method,
            path.removeprefix('/v1').replace('/ID', f'/{self.made}'),
            document,
            roles=test_rest.ADMIN if is_operator else 'member,reader',
        )
        wanted = {'POST': 201, 'DELETE': 204}.get(method, 200)
        self.assertEqual(wanted, answer.status, f'{text}\n{answer.body}')
        self.learn(document)
        self.learn(answer.body)
        if not self.made:
            self.made = answer.body['reservation']['id']
        return answer.body

    def play(self) -> int:
        """Send all requests; compare those answers that the page has."""
        answer: Any = None
        compared = 0
        for kind, block in _BLOCK.findall(self.page):
            text = '\n'.join(one[3:] for one in block.splitlines())
            if kind == 'none':
                answer = self.send(text)
            elif answer is not None:
                shown = text.replace('"ID"', json.dumps(self.made))
                self.assertEqual(json.loads(shown), answer)
                compared += 1
                answer = None
        return compared

    def test_each_request_is_answered_as_the_page_shows(self) -> None:
        self.assertEqual(3, self.play())

        # It was changed, and then terminated.
        path = f'/extended/reservations/{self.made}'
        found = self.ask('GET', path).body['reservation']
        self.assertEqual('cancelled', found['state'])
        self.assertEqual({'VCPU': 2, 'MEMORY_MB': 1024}, found['resources'])

    def test_each_word_is_one_of_the_api(self) -> None:
        self.play()
        self.learn(make_notifications())
        known = self.words | subscription._KEYS | _OTHERS | _CLASSES
        known |= {one.dest for one in options.OPTS}
        schema: Any = order._SCHEMA['properties']
        known |= schema.keys()

        rows = _ROW.findall(self.page)
        self.assertLess(40, len(rows))
        for ifa005, ours in rows:
            with self.subTest(ifa005):
                self.assertEqual(set(), set(_WORD.findall(ours)) - known)

    def test_each_attribute_of_ifa005_has_a_row(self) -> None:
        named = {
            word
            for ifa005, _ours in _ROW.findall(self.page)
            for word in _WORD.findall(ifa005)
        }

        self.assertEqual(set(), IFA005 - named)


def make_notifications() -> list[Any]:
    """Return one of a reservation, and one of capacity."""
    changed = event.Event(
        uuid='x',
        kind=event.Kind.DEGRADED,
        project='project',
        reservation='ID',
        happened_at=0,
        facts={
            'state': 'degraded',
            'cause': None,
            **event.describe_times(interval.Interval(0)),
        },
    )
    watched = subscription.Watched(
        zone='south', resource_class='VCPU', threshold=8
    )
    low = shortages.find_event(watched, None, 0, is_low=False)
    assert low is not None
    return [
        json.loads(one.write_body('x', 1, is_private=False))
        for one in (changed, low)
    ]
