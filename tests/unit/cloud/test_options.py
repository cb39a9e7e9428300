# SPDX-License-Identifier: Apache-2.0


from dev.cloud import options
from dev.cloud import settings
from tests import base


class RenderTest(base.TestCase):
    def test_sections_and_options_keep_their_order(self) -> None:
        text = options.render({'b': {'y': '1', 'x': '2'}, 'a': {'z': '3'}})

        self.assertEqual('[b]\ny = 1\nx = 2\n[a]\nz = 3\n', text)

    def test_an_option_with_many_values_is_written_many_times(self) -> None:
        text = options.render({'a': {'x': ('1', '2')}})

        self.assertEqual('[a]\nx = 1\nx = 2\n', text)


class SettingsTest(base.TestCase):
    def test_a_cloud_without_hosts_is_refused(self) -> None:
        self.assertRaises(ValueError, settings.Settings, hosts=())

    def test_hosts_with_the_same_name_are_refused(self) -> None:
        self.assertRaises(ValueError, settings.Settings, hosts=('a', 'a'))

    def test_options_for_an_unknown_host_are_refused_by_name(self) -> None:
        error = self.assertRaises(
            ValueError, settings.Settings, hosts=('a',), per_host={'b': {}}
        )

        self.assertIn("['b']", str(error))
