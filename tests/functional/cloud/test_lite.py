# SPDX-License-Identifier: Apache-2.0


from oslo_config import cfg

from dev.cloud import errors
from dev.cloud.lite import cloud
from dev.cloud import settings
from dev.cloud import site
from dev.cloud import tree
from nova_ext_resources.conf import reader
from nova_ext_resources.reservation.site import loading
from tests import base


class CloudTest(base.TestCase):
    def test_a_server_boots_and_is_deleted_with_stock_nova(self) -> None:
        with cloud.Cloud(settings.Settings(hosts=('a', 'b'))) as made:
            it = site.Site(cloud=made)
            it.image_id = it.upload_image('empty')
            it.add_flavor('small', {})
            server = it.boot('it', 'small')

            self.assertIn(server.compute_host, ('a', 'b'))
            held = tree.list_allocations(made.placement, server.id)
            self.assertEqual(
                [{'DISK_GB': 1, 'MEMORY_MB': 64, 'VCPU': 1}],
                list(held.values()),
            )
            self.check_catalog(made)
            it.delete(server.id)
            left = tree.list_allocations(made.placement, server.id)
            self.assertEqual({}, left)
        self.assertFalse(made.folder.root.exists())

    def check_catalog(self, made: cloud.Cloud) -> None:
        """One set of credentials leads to placement and to Nova."""
        conf = cfg.ConfigOpts()
        reader.parse(conf, [str(made.folder.etc / 'nova.conf')], [])
        site = loading.Site(conf)

        self.assertEqual(['a', 'b'], [one.name for one in site.list_hosts()])
        site.check_zones()
        self.assertIsNotNone(site.find_flavor('small'))

    def test_a_driver_that_does_not_exist_is_told_with_the_reason(
        self,
    ) -> None:
        nova = {'DEFAULT': {'compute_driver': 'no.SuchDriver'}}
        made = cloud.Cloud(settings.Settings(nova=nova))

        error = self.assertRaises(errors.ChildFailed, made.start)

        self.assertIn('Unable to load the virtualization driver', str(error))
        self.assertFalse(made.folder.root.exists())
