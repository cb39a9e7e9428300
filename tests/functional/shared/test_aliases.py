# SPDX-License-Identifier: Apache-2.0

"""Placement reads the same as with aliases of its own for each statement."""

from oslo_utils.fixture import uuidsentinel as uuids
from placement.objects import resource_provider
import sqlalchemy

from tests.functional import base


class AliasesTest(base.PlacementTestCase):
    def test_each_name_has_an_alias_of_its_own(self) -> None:
        table = sqlalchemy.table('one', sqlalchemy.column('id'))
        other = sqlalchemy.table('other', sqlalchemy.column('id'))
        alias = resource_provider.sa.alias

        self.assertIs(alias(table, name='a'), alias(table, name='a'))
        self.assertIsNot(alias(table, name='a'), alias(table, name='b'))
        self.assertIsNot(alias(table, name='a'), alias(other, name='a'))

    def test_each_provider_is_read_as_it_is(self) -> None:
        self.make_root(uuids.host1, 'host1')
        self.make_root(uuids.host2, 'host2')
        path = f'/resource_providers/{uuids.host1}'
        self.assertEqual('host1', self.adapter.get(path).json()['name'])

        self.adapter.put(path, json={'name': 'renamed'})

        self.assertEqual('renamed', self.adapter.get(path).json()['name'])
        path = f'/resource_providers/{uuids.host2}'
        self.assertEqual('host2', self.adapter.get(path).json()['name'])
