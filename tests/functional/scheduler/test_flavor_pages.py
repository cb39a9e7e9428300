# SPDX-License-Identifier: Apache-2.0

"""What the pages tell users and operators of flavors, asked of Nova's API."""

from collections.abc import Iterator
import inspect
import pathlib
import re

from nova.api.validation.extra_specs import validators as nova_validators
from nova import exception as nova_exc
from nova.scheduler import filters as nova_filters
from nova.scheduler import manager

from nova_ext_resources.claims import extra_specs
from nova_ext_resources.claims import lease
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources import exception
from nova_ext_resources.objects import event
from nova_ext_resources import plugins
from nova_ext_resources.reservation.manager import owners
from nova_ext_resources.scheduler.reservation import filter as filter_mod
from tests.functional.scheduler import scheduling

PAGES = pathlib.Path(__file__).parents[3] / 'doc' / 'source'
FLAVORS = PAGES / 'user' / 'flavors.rst'
SERVERS = PAGES / 'user' / 'servers.rst'

_SPEC = re.compile(
    r'(?:``|--property )'
    r'((?:resources?|trait|hw|group_policy)\b[^`\s=]*)=([^`\s]+)'
)

#: What stands for a name in the tables of the grammar.
_GENERAL = re.compile(r'\b(?:CLASS|ATTRIBUTE|ENFORCER|KEY|TRAIT)\b')


def list_specs(page: pathlib.Path) -> Iterator[tuple[str, str]]:
    """Return the extra specs of a page, with 1 for any number."""
    for key, value in _SPEC.findall(page.read_text(encoding='utf-8')):
        if not _GENERAL.search(key):
            value = '1' if value in ('N', 'AMOUNT') else value
            yield key.replace('<id>', '0123ABCD'), value


def list_examples() -> Iterator[dict[str, str]]:
    """Return the flavors of the table of examples."""
    _head, _title, rest = FLAVORS.read_text(encoding='utf-8').partition(
        '\nExamples\n'
    )
    table, _title, _rest = rest.partition('\nWhat is refused\n')
    for row in table.split('\n   * - ')[2:]:
        properties = re.findall(r'``([^`=]+)=([^`]+)``', row)
        yield {key.replace('<id>', '0'): value for key, value in properties}


class SpecsTest(scheduling.TestCase):
    def test_each_extra_spec_of_each_page_is_accepted(self) -> None:
        seen = 0
        for page in [*PAGES.glob('user/*.rst'), *PAGES.glob('admin/**/*.rst')]:
            for key, value in list_specs(page):
                seen += 1
                with self.subTest(page=page.name, key=key, value=value):
                    nova_validators.validate(key, value)
        self.assertLess(80, seen)

    def test_one_that_is_wrong_is_noticed(self) -> None:
        page = pathlib.Path(self.make_folder(), 'page.rst')
        page.write_text('Use ``resource:rmd:polcy=gold``, or do not.\n')

        [(key, value)] = list_specs(page)

        self.assertRaises(
            nova_exc.ValidationError, nova_validators.validate, key, value
        )

    def test_each_example_is_a_flavor_as_a_whole(self) -> None:
        grammar = plugins.load_grammar()
        made = [*list_examples()]

        for specs in made:
            with self.subTest(specs=specs):
                self.assertNotEqual({}, specs)
                extra_specs.parse(specs, grammar)
        self.assertLess(8, len(made))

    def test_the_classes_of_caches_and_bandwidth_are_those_that_are(
        self,
    ) -> None:
        text = FLAVORS.read_text(encoding='utf-8')
        _head, _title, rest = text.partition('\nCache and memory bandwidth\n')
        table, _title, _rest = rest.partition('Which hosts have it')
        named = set(re.findall(r'``(CUSTOM_\w+)``', table))

        self.assertEqual(
            {
                classes.WAYS,
                classes.BURST,
                classes.SHARED,
                'CUSTOM_L2_WAYS',
                *classes.BANDWIDTHS,
            },
            named,
        )


class LimitsTest(scheduling.TestCase):
    """Limits and defaults, as the page has them."""

    def setUp(self) -> None:
        super().setUp()
        self.text = ' '.join(FLAVORS.read_text(encoding='utf-8').split())

    def accepts(self, key: str, value: int | str) -> bool:
        try:
            nova_validators.validate(key, str(value))
        except nova_exc.ValidationError:
            return False
        return True

    def test_amounts(self) -> None:
        [(low, high)] = re.findall(
            r'An amount is a whole number from (\d+) to (\d+)', self.text
        )

        for resource_class in ('CUSTOM_X', 'VCPU'):
            key = f'resources:{resource_class}'
            for value, is_right in (
                (low, True),
                (high, True),
                (int(high) + 1, False),
                (0, resource_class == 'VCPU'),
                ('-1', False),
                ('1.5', False),
                ('many', False),
            ):
                with self.subTest(key=key, value=value):
                    self.assertEqual(is_right, self.accepts(key, value))

    def test_suffixes(self) -> None:
        [longest] = re.findall(r'The suffix has 1 to (\d+) letters', self.text)
        for length, is_right in ((int(longest), True), (65, False)):
            suffix = ('_aZ-9' * 13)[:length]

            self.assertEqual(
                is_right, self.accepts(f'resources{suffix}:CUSTOM_X', 1)
            )

    def test_leases(self) -> None:
        rows = re.findall(
            r'``(resource:lease:\w+)=N`` - (.*?)From (-?\d+) to (\d+)',
            self.text,
        )

        for key, _between, low, high in rows:
            with self.subTest(key=key):
                self.assertTrue(self.accepts(key, low))
                self.assertTrue(self.accepts(key, high))
                self.assertFalse(self.accepts(key, int(low) - 1))
                self.assertFalse(self.accepts(key, int(high) + 1))
        self.assertEqual(3, len(rows))

    def test_defaults_of_leases(self) -> None:
        made = lease.parse({'resource:lease:preemptible': 'true'})

        self.assertIn(
            f'From 0 to 3600, {made.drain_seconds} by default', self.text
        )
        self.assertIn(
            f'From -999 to 999, {made.priority} by default', self.text
        )
        self.assertFalse(made.is_deleted)
        self.assertIn('``shelve``, the default', self.text)
        for key in ('drain_seconds', 'on_drain', 'priority'):
            specs = {f'resource:lease:{key}': '1'}
            self.assertRaises(exception.InvalidExtraSpec, lease.parse, specs)


class MessagesTest(scheduling.TestCase):
    """What the pages quote is what programs write."""

    def test_an_attribute_without_its_resource(self) -> None:
        spec = scheduling.make_spec(
            {'resource:CUSTOM_LLC_WAYS_BURST:max': '6'}
        )
        spec.flavor.name = 'c4.burst'

        handler = nova_filters.HostFilterHandler()
        [ours] = handler.get_matching_classes(
            ['nova_ext_resources.scheduler.filters.ExtendedResourcesFilter']
        )

        err = self.assertRaises(
            nova_exc.NoValidHost,
            handler.get_filtered_objects,
            [ours()],
            [scheduling.make_host()],
            spec,
        )

        self.assertIn(
            f'web-1 -c fault {err}',
            ' '.join(FLAVORS.read_text(encoding='utf-8').split()),
        )

    def test_the_faults_of_the_page_of_servers(self) -> None:
        text = ' '.join(SERVERS.read_text(encoding='utf-8').split())
        no_host = nova_exc.NoValidHost(
            reason=filter_mod._PROMISED[0].upper() + filter_mod._PROMISED[1:]
        )
        [quoted] = re.findall(
            r'"([^"]+promised [^"]+ to reservations) \.\.\."', text
        )

        self.assertTrue(str(no_host).startswith(f'{quoted} '), str(no_host))
        [quoted] = re.findall(
            r'"No valid host was found. (There are not [^"]+)"', text
        )
        self.assertIn(f"'{quoted}", inspect.getsource(manager))
        self.assertIn(
            f'"{nova_exc.MaxRetriesExceeded.msg_fmt.partition(".")[0]}"', text
        )

    def test_names_of_events_metadata_and_hints(self) -> None:
        ours = {
            event.CLAIM,
            event.APPLY,
            owners.LEAVES_AT,
            owners.LEAVES_BY,
            lease.HINT,
        }
        found: set[str] = set()
        for page in (FLAVORS, SERVERS):
            found.update(
                re.findall(
                    r'\b(ext_resources_\w+(?=:<hostId>)|nova_ext:\w+)',
                    page.read_text(encoding='utf-8'),
                )
            )

        self.assertEqual(ours, found)
