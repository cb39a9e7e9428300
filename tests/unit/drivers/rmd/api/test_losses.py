# SPDX-License-Identifier: Apache-2.0

from nova_ext_resources.drivers.rmd.api import losses
from nova_ext_resources.drivers.rmd.api import values
from tests import base


def make_workload(cos_name: str) -> values.RmdWorkload:
    return values.RmdWorkload(
        workload_id='1',
        uuid='',
        core_ids=frozenset(),
        max_ways=None,
        min_ways=None,
        mba=None,
        cos_name=cos_name,
        plugins={},
    )


class LossesTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.losses = losses.Losses()
        self.named = losses.Loss(text='libpqos failed', cos_name='COS2')
        self.of_plugin = losses.Loss(text='pstate failed', is_of_plugin=True)
        for one in (self.named, self.of_plugin):
            self.losses.add(one)

    def test_a_class_on_record_is_no_longer_lost(self) -> None:
        self.losses.see([make_workload('COS1'), make_workload('COS2')])

        self.assertEqual((self.of_plugin,), self.losses.list_all())

    def test_a_workload_without_a_class_returns_none(self) -> None:
        self.losses.see([make_workload('')])

        self.assertEqual((self.named, self.of_plugin), self.losses.list_all())
