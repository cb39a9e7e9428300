# SPDX-License-Identifier: Apache-2.0

"""Names and uuids of pools."""

from oslo_utils.fixture import uuidsentinel as uuids

from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import pool
from tests import base


AGGREGATE = '418fed3e-3e39-5031-a9fc-574104545db4'


class PoolTest(base.TestCase):
    def test_uuids_stay_the_same_in_all_releases(self) -> None:
        made = pool.SharedPool(name='rack1', resource_class='CUSTOM_X')

        self.assertEqual(
            ('d50e8fc7-18db-57bd-8613-5039b0bcd9ec', AGGREGATE),
            (made.rp_uuid, made.aggregate_uuid),
        )

    def test_only_one_with_name_and_uuid_of_a_pool_is_one(self) -> None:
        made = pool.SharedPool(name='rack1', resource_class='CUSTOM_X')

        for rp_uuid, name, parent_uuid, expected in (
            (made.rp_uuid, made.rp_name, None, True),
            (made.rp_uuid, made.rp_name, uuids.parent, False),
            (uuids.other, made.rp_name, None, False),
            (made.rp_uuid, 'POOL_rack2', None, False),
        ):
            one = host_provider.Provider(
                rp_uuid=rp_uuid, name=name, parent_uuid=parent_uuid
            )
            self.assertEqual(expected, pool.is_pool(one))
