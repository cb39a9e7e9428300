# SPDX-License-Identifier: Apache-2.0

"""Tests of hosts in the letters of a terminal."""

import string

from oslo_utils import uuidutils

from nova_ext_resources.cmd.osc.render import host_text
from nova_ext_resources.inspection import names
from nova_ext_resources.inspection import rows as rows_mod
from nova_ext_resources.objects.documents import host_tree
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import reserved_units
from nova_ext_resources.reservation import publication
from tests import base
from tests.unit import builders
from tests.unit.inspection import trees

NAMES = names.Names(servers={trees.ONE: 'web-10', trees.TWO: 'web-2'})


class PictureTest(base.TestCase):
    def draw(
        self,
        tree: host_tree.HostTree | None = None,
        published: publication.Publication | None = None,
        names: names.Names = NAMES,
    ) -> list[str]:
        tree = tree or trees.make_tree()
        rows = rows_mod.list_rows(tree, published, builders.make_trackers())
        return [*host_text.draw(tree, rows, names)]

    def test_each_way_with_its_owner(self) -> None:
        self.assertEqual(
            [
                'compute-1',
                '  VCPU: 8 total, 0 reserved, 2 used, 6 free',
                '  RDT',
                '    traits: CUSTOM_RDT_L3_CAT',
                '    CUSTOM_RDT_CLOS: 8 total, 2 reserved, 2 used, 4 free',
                '      AB=%....',
                '    L3_0',
                '      traits: CUSTOM_RDT_L3_CAT',
                '      CUSTOM_LLC_WAYS: 12 total, 4 reserved, 6 used, 2 free',
                '        way 11 10  9  8  7  6  5  4  3  2  1  0',
                '             =  %  ~  #  A  A  .  .  B  B  B  B',
                '',
                'A  web-2',
                'B  web-10',
                '=  the host itself, or its I/O devices',
                '%  other software',
                '~  a pool of burst or shared ways',
                '#  reserved: the host itself, a pool, or other software',
                '.  free',
            ],
            self.draw(
                published=trees.make_publication(
                    reserved={
                        (trees.L3_0, trees.WAYS): reserved_units.Reserved(
                            host=0x800, other=0x400, pools=0x200
                        ),
                        (trees.RDT, trees.CLOS): reserved_units.Reserved(
                            host=1, other=1
                        ),
                    }
                )
            ),
        )

    def test_an_older_host_does_not_tell_what_has_the_ways(self) -> None:
        lines = self.draw(published=trees.make_publication())

        place = lines.index('             #  #  #  #  A  A  .  .  B  B  B  B')
        self.assertEqual(
            '        (# marks unknown units: the host has not published its '
            'units recently)',
            lines[place + 1],
        )
        self.assertGreaterEqual(host_text.WIDTH, max(map(len, lines)))

    def test_what_the_host_takes_none_of_now(self) -> None:
        published = trees.make_publication(
            rules=host_constraints.Constraints(refused={trees.CLOS: 'stalled'})
        )

        lines = [one for one in self.draw(None, published) if 'none' in one]

        self.assertEqual(
            [
                '    CUSTOM_RDT_CLOS: 8 total, 2 reserved, 2 used, 4 free, '
                'takes none now:',
                # The next line has the alarm.
            ],
            lines,
        )

    def test_what_is_not_known_is_said(self) -> None:
        lines = self.draw()

        place = lines.index('        AABBBB####..')
        self.assertIn('were not read', lines[place + 1])
        outdated = self.draw(
            trees.make_tree({trees.ONE: 1}), trees.make_publication()
        )
        self.assertTrue(any('older or newer' in one for one in outdated))

    def test_what_is_held_of_a_closed_provider_is_drawn_once(self) -> None:
        seats = trees.make_provider(
            '_RDT',
            trees.ROOT,
            'CUSTOM_SEAT',
            builders.make_inventory(20, reserved=20),
            {trees.ONE: 2, trees.TWO: 2},
        )
        tree = trees.make_tree()

        lines = self.draw(
            host_tree.HostTree(providers=(tree.providers[0], seats))
        )

        self.assertIn(f'AABB{"#" * 16}', [one.strip() for one in lines])

    def test_uuids_where_nova_does_not_tell_names(self) -> None:
        self.assertIn(trees.ONE, '\n'.join(self.draw(names=names.Names())))

    def test_many_servers_and_long_names_stay_in_80_columns(self) -> None:
        held = {uuidutils.generate_uuid(): 1 for _ in range(70)}
        tree = trees.make_tree()
        name = f'CUSTOM_{"LONG_" * 12}NAME'
        cache = trees.make_provider(
            '_L3_0', trees.RDT, name, builders.make_inventory(1000), held
        )
        wide = host_tree.HostTree(providers=(*tree.providers[:2], cache))

        lines = self.draw(wide, names=names.Names())

        self.assertGreaterEqual(host_text.WIDTH, max(map(len, lines)))
        self.assertIn('+  more servers', lines)
        self.assertTrue(any(one.endswith(' each 20') for one in lines))
        letters = [
            one[0] for one in lines if one[1:3] == '  ' and one[0] > ' '
        ]
        self.assertEqual(
            [*string.ascii_uppercase, *string.ascii_lowercase],
            letters[:52],
        )

    def test_each_of_many_ways(self) -> None:
        tree = trees.make_tree({})
        cache = trees.make_provider(
            '_L3_0', trees.RDT, trees.WAYS, builders.make_inventory(32), {}
        )
        row = rows_mod.ResourceRow(
            rp_uuid=trees.L3_0,
            provider='L3_0',
            resource_class=trees.WAYS,
            amount=cache.amounts[trees.WAYS],
            parts=(
                rows_mod.ResourcePart(kind=rows_mod.PartKind.FREE, amount=32),
            ),
            source=rows_mod.RowSource.UNITS,
            ways=(0,) * 32,
        )

        lines = [*host_text.draw(tree, [row], names.Names())]

        ways = [one.split()[1:] for one in lines if ' way ' in one]
        self.assertEqual(
            [str(one) for one in range(31, -1, -1)],
            [number for line in ways for number in line],
        )
        self.assertGreaterEqual(host_text.WIDTH, max(map(len, lines)))
