# SPDX-License-Identifier: Apache-2.0

"""Tests of the file with what placement last had of a host's providers."""

import dataclasses
import errno
import hashlib
import json
import logging
import os
import pathlib
import stat

import fixtures
from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.objects import class_inventory
from nova_ext_resources.objects import host_provider
from nova_ext_resources.placement.publish import provider_tree_cache
from tests import base

ONE = host_provider.Provider(
    rp_uuid=uuids.one,
    name='host1_L3_0',
    parent_uuid=uuids.node,
    generation=3,
    inventories={
        'CUSTOM_LLC_WAYS': class_inventory.Inventory(
            total=11, reserved=1, max_unit=5, allocation_ratio=1.1
        )
    },
    traits=frozenset({'CUSTOM_B', 'CUSTOM_A'}),
    aggregates=frozenset({uuids.aggregate}),
)
TWO = host_provider.Provider(rp_uuid=uuids.two, name='host1_RDT', generation=0)
BOTH = {uuids.one: ONE, uuids.two: TWO}


class MemoryTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.ledger = pathlib.Path(self.make_folder()) / 'it'
        self.memory = provider_tree_cache.Memory(str(self.ledger))
        self.path = pathlib.Path(self.memory.path)
        self.log = self.useFixture(
            fixtures.FakeLogger(
                provider_tree_cache.LOG.logger.name, level=logging.INFO
            )
        )

    def read(self) -> object:
        return provider_tree_cache.Memory(str(self.ledger)).read(uuids.node)

    def rewrite(self, **values: object) -> None:
        """Change what is in the file, as another version would write it."""
        _sum, _newline, text = self.path.read_text().partition('\n')
        text = json.dumps({**json.loads(text), **values})
        checksum = hashlib.sha256(text.encode()).hexdigest()
        self.path.write_text(f'{checksum}\n{text}')

    def test_what_is_written_is_read(self) -> None:
        self.memory.write(uuids.node, BOTH)

        self.assertEqual(BOTH, self.read())

    def test_only_its_owner_can_read_it(self) -> None:
        self.memory.write(uuids.node, BOTH)

        self.assertEqual(0o600, stat.S_IMODE(self.path.stat().st_mode))

    def test_the_same_is_written_once(self) -> None:
        self.memory.write(uuids.node, BOTH)
        before = self.path.stat().st_ino

        self.memory.write(uuids.node, dict(reversed(BOTH.items())))

        self.assertEqual(before, self.path.stat().st_ino)

    def test_after_it_was_forgotten_nothing_is_read(self) -> None:
        self.memory.write(uuids.node, BOTH)

        self.memory.forget()

        self.assertEqual({}, self.read())
        self.memory.write(uuids.node, BOTH)
        self.assertEqual(BOTH, self.read())

    def test_without_a_file_there_is_nothing(self) -> None:
        self.memory.forget()

        self.assertEqual({}, self.read())
        self.assertEqual('', self.log.output)

    def test_that_of_another_node_is_not_used(self) -> None:
        self.memory.write(uuids.other, BOTH)

        self.assertEqual({}, self.read())

    def test_that_of_another_version_is_not_used(self) -> None:
        for version in (0, 2, '1', None):
            self.memory.forget()
            self.memory.write(uuids.node, BOTH)
            self.rewrite(version=version)

            self.assertEqual({}, self.read())

    def test_one_with_other_content_is_not_used(self) -> None:
        contents: tuple[object, ...] = (None, 5, [1], [{}], [{'rp_uuid': 'x'}])
        for providers in contents:
            self.memory.forget()
            self.memory.write(uuids.node, BOTH)
            self.rewrite(providers=providers)

            self.assertEqual({}, self.read())

    def test_any_byte_that_is_damaged_is_noticed(self) -> None:
        self.memory.write(uuids.node, BOTH)
        written = self.path.read_bytes()

        for place in range(len(written)):
            damaged = bytearray(written)
            damaged[place] ^= 0x01
            self.path.write_bytes(damaged)

            self.assertEqual({}, self.read(), str(place))

    def test_any_part_of_it_is_not_used(self) -> None:
        self.memory.write(uuids.node, BOTH)
        written = self.path.read_bytes()

        for length in range(len(written)):
            self.path.write_bytes(written[:length])

            self.assertEqual({}, self.read(), str(length))

    def test_what_is_no_text_is_not_used(self) -> None:
        for content in (b'', b'\xff\xfe', b'[' * 100_000, b'x\n' + b'[' * 9):
            self.path.write_bytes(content)

            self.assertEqual({}, self.read())

    def test_what_cannot_be_written_is_logged_once(self) -> None:
        """Neither is anything raised: publishing matters more."""
        self.memory = provider_tree_cache.Memory(f'{self.path}/no/such/folder')

        self.memory.write(uuids.node, BOTH)
        self.memory.write(uuids.node, BOTH)

        self.assertEqual(1, self.log.output.count('cannot be written'))

    def test_a_folder_in_its_place_is_not_read(self) -> None:
        os.mkdir(self.path)

        self.assertEqual({}, self.read())
        self.memory.forget()
        self.memory.forget()
        self.assertEqual(1, self.log.output.count('cannot be removed'))
        self.memory.write(uuids.node, BOTH)
        self.assertIn('cannot be written', self.log.output)

    def test_a_full_disk_leaves_no_former_file(self) -> None:
        self.memory.write(uuids.node, BOTH)
        made = self.path.with_name(f'{self.path.name}.new')
        made.symlink_to('/dev/full')

        self.memory.write(uuids.node, {uuids.one: ONE})

        self.assertEqual([], os.listdir(self.path.parent))
        self.assertIn('No space left', self.log.output)
        self.assertNotIn('cannot be removed', self.log.output)
        self.memory.write(uuids.node, BOTH)
        self.assertEqual(BOTH, self.read())

    def test_what_cannot_be_removed_is_emptied(self) -> None:
        """As in a folder that others own."""
        self.memory.write(uuids.node, BOTH)

        def refuse(path: str) -> None:
            raise PermissionError(errno.EACCES, 'Permission denied', path)

        self.useFixture(fixtures.MonkeyPatch('os.unlink', refuse))
        self.memory.forget()

        self.assertEqual(b'', self.path.read_bytes())
        self.assertEqual({}, self.read())

    def test_it_is_beside_the_ledger_and_not_beside_a_link(self) -> None:
        link = pathlib.Path(self.make_folder()) / 'link'
        link.symlink_to(self.ledger)

        self.assertEqual(
            str(self.path), provider_tree_cache.Memory(str(link)).path
        )

    def test_other_fields_need_another_version(self) -> None:
        """Raise ``VERSION`` with any change of these."""
        self.assertEqual(
            (
                1,
                {
                    'rp_uuid',
                    'name',
                    'parent_uuid',
                    'generation',
                    'inventories',
                    'traits',
                    'aggregates',
                    'published_traits',
                    'is_unread',
                },
                {
                    'total',
                    'reserved',
                    'min_unit',
                    'max_unit',
                    'step_size',
                    'allocation_ratio',
                },
            ),
            (
                provider_tree_cache.VERSION,
                {
                    one.name
                    for one in dataclasses.fields(host_provider.Provider)
                },
                {
                    one.name
                    for one in dataclasses.fields(class_inventory.Inventory)
                },
            ),
        )
