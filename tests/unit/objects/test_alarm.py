# SPDX-License-Identifier: Apache-2.0

import pathlib
import re

import yaml

from nova_ext_resources import exception
from nova_ext_resources.objects import alarm as alarm_mod
from tests import base

ROOT = pathlib.Path(__file__).parents[3]
PAGE = ROOT / 'doc' / 'source' / 'admin' / 'alarms.rst'
RULES = ROOT / 'etc' / 'nova_ext_resources' / 'alerts.yaml'

#: What each section of the runbook has, in this order.
HEADINGS = (
    '**How to see it**',
    '**What to do**',
    '**What the software does by itself**',
)


#: Sections of rules that no host can raise itself.
OF_PROMETHEUS = ('part_silent', 'part_never_worked', 'pool_silent')


class KnownError(exception.ExtResourcesError):
    alarm = alarm_mod.RESCTRL_MISSING


class OddError(Exception):
    alarm = 'no such alarm'


class FormerError(Exception):
    alarm = 'not_in_force'


def raise_from(err: Exception, cause: Exception | None) -> Exception:
    try:
        raise err from cause
    except Exception as raised:
        return raised


class ProblemTest(base.TestCase):
    def test_it_reads_as_its_sentence(self) -> None:
        one = alarm_mod.Problem(alarm=alarm_mod.NOT_APPLIED, text='It is off.')

        self.assertEqual('It is off.', str(one))

    def test_one_without_an_alarm_cannot_be_made(self) -> None:
        err = self.assertRaises(
            ValueError, alarm_mod.Problem, alarm='not_in_farce', text='?'
        )

        self.assertIn('not_in_farce', str(err))

    def test_a_plugin_may_give_the_former_name(self) -> None:
        for name, former in alarm_mod.FORMER_NAMES.items():
            one = alarm_mod.Problem(alarm=former, text='It is off.')

            self.assertEqual(name, one.alarm)

    def test_an_error_names_its_alarm_also_as_a_cause(self) -> None:
        for err, name in (
            (KnownError(), alarm_mod.RESCTRL_MISSING),
            (
                raise_from(ValueError(), KnownError()),
                alarm_mod.RESCTRL_MISSING,
            ),
            (raise_from(ValueError(), None), alarm_mod.ENFORCER_FAILED),
            (OddError(), alarm_mod.ENFORCER_FAILED),
            (FormerError(), alarm_mod.NOT_APPLIED),
        ):
            with self.subTest(err=repr(err)):
                one = alarm_mod.from_error(err, subject='rmd')

                self.assertEqual(name, one.alarm)
                self.assertEqual('rmd', one.subject)
                self.assertEqual(str(err), str(one))


class KindsTest(base.TestCase):
    def test_each_constant_is_a_kind_and_each_kind_a_constant(self) -> None:
        constants = {
            value
            for name, value in vars(alarm_mod).items()
            if name.isupper() and isinstance(value, str)
        }

        self.assertEqual(constants, set(alarm_mod.KINDS))

    def test_no_former_name_is_that_of_another_alarm(self) -> None:
        names = alarm_mod.FORMER_NAMES

        self.assertLessEqual(set(names), set(alarm_mod.KINDS))
        self.assertFalse(set(names.values()) & set(alarm_mod.KINDS))
        self.assertEqual(len(names), len(set(names.values())))

    def test_the_worst_come_first(self) -> None:
        severities = [one.severity for one in alarm_mod.KINDS.values()]

        self.assertEqual(sorted(severities), severities)

    def test_each_is_described_in_one_sentence(self) -> None:
        for one in alarm_mod.KINDS.values():
            self.assertRegex(one.summary, r'^[A-Z][^.]*\.$')


class RunbookTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.text = PAGE.read_text(encoding='utf-8')
        parts = re.split(r'^([a-z_]+)\n-+\n', self.text, flags=re.MULTILINE)
        self.sections = dict(zip(parts[1::2], parts[2::2], strict=True))

    def test_each_alarm_has_a_section_in_order(self) -> None:
        self.assertEqual(
            [*alarm_mod.KINDS, *OF_PROMETHEUS], list(self.sections)
        )

    def test_links_to_former_names_lead_to_the_sections(self) -> None:
        for name, former in alarm_mod.FORMER_NAMES.items():
            target = former.replace('_', '-')

            self.assertIn(f'\n.. _{target}:\n\n{name}\n--', self.text)
            self.assertIn(
                f'   * - ``{former}``\n     - `{name}`_\n', self.text
            )

    def test_each_section_says_all_that_is_needed(self) -> None:
        for name, section in self.sections.items():
            with self.subTest(name=name):
                parts = re.split(r'^(\*\*.*\*\*)$', section, flags=re.M)
                self.assertEqual(HEADINGS, tuple(parts[1::2]))
                for part in parts[::2]:
                    self.assertGreater(len(part.strip()), 15)

    def test_warnings_are_below_warnings(self) -> None:
        at = self.text.index('\nWarnings\n====')
        for one in alarm_mod.KINDS.values():
            is_below = self.text.index(f'\n{one.name}\n--') > at
            self.assertIs(one.severity is alarm_mod.Severity.WARNING, is_below)


class RulesTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        (group,) = yaml.safe_load(RULES.read_text('utf-8'))['groups']
        self.rules = group['rules']

    def test_each_alarm_has_a_rule_with_its_severity(self) -> None:
        rules = {
            found[1]: rule['labels']['severity']
            for rule in self.rules
            if (found := re.search(r'alarm{name="(\w+)"} == 1', rule['expr']))
        }

        self.assertEqual(
            {one.name: one.severity for one in alarm_mod.KINDS.values()}, rules
        )
        self.assertEqual(
            len(alarm_mod.KINDS) + len(OF_PROMETHEUS), len(self.rules)
        )

    def test_each_rule_leads_to_a_section_of_the_runbook(self) -> None:
        for rule in self.rules:
            page, _hash, anchor = rule['annotations']['runbook_url'].partition(
                '#'
            )
            self.assertTrue(page.endswith('/admin/alarms.html'))
            camel = ''.join(map(str.capitalize, anchor.split('-')))
            self.assertEqual(f'ExtResources{camel}', rule['alert'])
            name = re.search(r'name="(\w+)"', rule['expr'])
            if name:
                self.assertEqual(name[1].replace('_', '-'), anchor)
            self.assertIn(
                anchor.replace('-', '_'), {*alarm_mod.KINDS, *OF_PROMETHEUS}
            )
