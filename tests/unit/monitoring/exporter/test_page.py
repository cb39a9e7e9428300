# SPDX-License-Identifier: Apache-2.0

"""The page with a picture of the host; see functional for a browser."""

import dataclasses
import re
from xml.etree import ElementTree

from nova_ext_resources.claims.trackers import cache_ways
from nova_ext_resources.claims.trackers import count
from nova_ext_resources.facts import server
from nova_ext_resources.monitoring.exporter import page
from nova_ext_resources.monitoring.exporter import series
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_health
from nova_ext_resources.objects import host_view
from nova_ext_resources.objects import reserved_units
from tests import base
from tests.unit import builders
from tests.unit.monitoring.exporter import shown

WAYS = builders.WAYS
SEAT = 'CUSTOM_SEAT'
HOSTILE = '<script>alert(1)</script>&"\x00'


def _make_view(
    key: str = 'L3_0', known: reserved_units.Reserved | None = None
) -> host_view.HostView:
    """Make a cache of twelve ways, four of them reserved, and ten seats."""
    return host_view.HostView(
        tracked={
            ('l3', WAYS): host_view.Tracked(
                tracker='cache_ways',
                state=cache_ways.CacheWaysState(0xFF, 0xC3),
                inventory=builders.make_inventory(12),
                reserved=known,
            ),
            ('seats', SEAT): host_view.Tracked(
                tracker='count',
                state=count.CountState(10, used=4),
                inventory=builders.make_inventory(10),
            ),
        },
        keys={'l3': key, 'seats': 'STATIC'},
    )


def _make_entry(uuid: str, mask: str, seats: int = 0) -> assignment.Entry:
    held = [
        builders.make_assignment(
            rp_uuid='l3',
            resource_class=WAYS,
            amount=int(mask, 16).bit_count(),
            units={'mask': mask},
        )
    ]
    if seats:
        held.append(
            builders.make_assignment(
                rp_uuid='seats', resource_class=SEAT, amount=seats
            )
        )
    return assignment.Entry(consumer_uuid=uuid, assignments=tuple(held))


class PageTest(base.TestCase):
    def make(self, **fields: object) -> str:
        entries = {
            'one': _make_entry('one', '3', seats=4),
            'two': _make_entry('two', 'c0'),
        }
        snapshot = shown.make_snapshot(
            **{'view': _make_view(), 'entries': entries, **fields}
        )
        return page.make_page(snapshot)

    def read(self, text: str) -> ElementTree.Element:
        """Parse the page, which is XML as well."""
        return ElementTree.fromstring(text.partition('\n')[2])

    def list_boxes(self, text: str, name: str) -> list[str]:
        """Return what each box of a resource says, from the left."""
        svg = '{http://www.w3.org/2000/svg}'
        (found,) = [
            one
            for one in self.read(text).iter(f'{svg}svg')
            if (one.findtext(f'{svg}title') or '').startswith(name)
        ]
        return [
            one.findtext(f'{svg}title') or '' for one in found.iter(f'{svg}g')
        ]

    def test_each_way_has_its_owner(self) -> None:
        servers = {'one': server.NovaServer(flavor='gold', project_id='p1')}

        found = self.list_boxes(self.make(servers=servers), WAYS)

        reserved = '4: reserved: the host itself, a pool, or other software'
        one = '2: one, flavor gold, project p1'
        self.assertEqual(
            [*[reserved] * 4, *['2: two'] * 2, *['4: free'] * 4, *[one] * 2],
            found,
        )

    def test_what_no_server_has_is_told_apart(self) -> None:
        known = reserved_units.Reserved(host=0x800, other=0x400, pools=0x200)

        text = self.make(view=_make_view(known=known))

        self.assertEqual(
            [
                '1: the host itself, or its I/O devices',
                '1: other software',
                '1: a pool of burst or shared ways',
                '1: reserved: the host itself, a pool, or other software',
            ],
            self.list_boxes(text, WAYS)[:4],
        )
        colours = {
            colour: sign
            for colour, sign in re.findall(
                r'fill="(#\w+)" stroke="#525252"/>\n<text [^>]*>(.)<', text
            )
            if not sign.isalnum()
        }
        self.assertEqual({*'=%~#'}, {*colours.values()})
        self.assertEqual(4, len(colours))
        for colour, sign in colours.items():
            self.assertIn(f'background: {colour}; ', text)
            self.assertIn(f'>\u00a0{sign}\u00a0</span> ', text)

    def test_amounts_are_parts_of_a_bar(self) -> None:
        self.assertEqual(
            ['4: one', '6: free'],
            [
                one.replace(', flavor gold, project p1', '')
                for one in self.list_boxes(self.make(), SEAT)
            ],
        )

    def test_nothing_is_loaded_and_nothing_runs(self) -> None:
        text = self.make()

        for word in ('<script', 'src=', 'href=', 'url(', '@import'):
            self.assertNotIn(word, text)
        self.assertNotRegex(text, r' on\w+=')

    def test_hostile_words_are_text(self) -> None:
        text = self.make(
            view=_make_view(HOSTILE),
            servers={'one': server.NovaServer(flavor=HOSTILE)},
            health=dataclasses.replace(shown.make_health(), host=HOSTILE),
        )

        self.read(text)
        self.assertNotIn('<script', text)
        self.assertIn('&lt;script&gt;alert(1)', text)

    def test_alarms_are_shown_up_to_a_number(self) -> None:
        raised = [alarm.NOT_APPLIED] * (page.MAX_ALARMS + 3)
        text = self.make(
            health=shown.make_health(
                *raised, status=host_health.HealthStatus.FAILING
            )
        )

        self.assertIn('<span class="failing">', text)
        self.assertEqual(page.MAX_ALARMS, text.count('not_applied: '))
        self.assertIn('and 3 more', text)

    def test_a_host_that_offers_nothing(self) -> None:
        snapshot = series.HostSnapshot(
            health=shown.make_health(),
            view=host_view.HostView(),
            entries={},
        )

        self.assertIn(
            'The host offers no resources.', page.make_page(snapshot)
        )

    def test_more_servers_than_letters(self) -> None:
        entries = {
            f'{number:03}': _make_entry(f'{number:03}', '0')
            for number in range(100)
        }

        self.read(self.make(entries=entries))
