# SPDX-License-Identifier: Apache-2.0


from oslo_config import cfg

from cloud import errors
from cloud.lite import cloud
from cloud import servers
from cloud import settings
from cloud import tree
from nova_ext_resources.conf import reader
from nova_ext_resources.reservation.site import loading
from tests import base


class CloudTest(base.TestCase):
    def test_a_server_boots_and_is_deleted_with_stock_nova(self) -> None:
        with cloud.Cloud(settings.Settings(hosts=('a', 'b'))) as made:
            image = made.sdk.image.upload_image(
                name='empty',
                disk_format='raw',
                container_format='bare',
                data=bytes(512),
            )
            flavor = made.sdk.compute.create_flavor(
                name='small', vcpus=1, ram=64, disk=0
            )

            server = servers.boot(
                made.sdk, 'it', flavor_id=flavor.id, image_id=image.id
            )

            self.assertEqual('ACTIVE', server.status)
            self.assertIn(server.compute_host, ('a', 'b'))
            held = tree.list_allocations(made.placement, server.id)
            self.assertEqual(
                [{'MEMORY_MB': 64, 'VCPU': 1}], list(held.values())
            )
            self.check_catalog(made)
            servers.delete(made.sdk, server.id)
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
