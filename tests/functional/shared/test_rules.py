# SPDX-License-Identifier: Apache-2.0

"""A policy that is loaded once follows all that is set and registered."""

from oslo_config import cfg
from oslo_policy import _parser
from oslo_policy import policy

from tests import base
from tests.functional import shared

ADMIN = {'roles': ['admin']}
READER = {'roles': ['reader']}


class RulesTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        shared.install()
        conf = cfg.ConfigOpts()
        conf([], default_config_files=[])
        self.enforcer = policy.Enforcer(conf)
        self.register('start', 'role:admin')

    def register(self, name: str, check: str) -> None:
        self.enforcer.register_default(policy.RuleDefault(name, check))

    def allows(self, rule: str, creds: dict[str, list[str]]) -> bool:
        return bool(self.enforcer.enforce(rule, {}, dict(creds)))

    def test_what_is_registered(self) -> None:
        for _ in range(2):
            self.assertTrue(self.allows('start', ADMIN))
            self.assertFalse(self.allows('start', READER))

    def test_what_is_registered_later(self) -> None:
        self.assertFalse(self.allows('stop', READER))

        self.register('stop', 'role:reader')

        self.assertTrue(self.allows('stop', READER))

    def test_what_is_set_later(self) -> None:
        self.assertFalse(self.allows('start', READER))

        stop = policy.Rules.from_dict({'stop': '@'})
        self.enforcer.set_rules(stop, use_conf=True)

        self.assertTrue(self.allows('stop', READER))
        self.assertTrue(self.allows('start', ADMIN))

    def test_what_is_cleared_is_gone(self) -> None:
        self.assertTrue(self.allows('start', ADMIN))

        self.enforcer.clear()

        self.assertFalse(self.allows('start', ADMIN))

    def test_another_enforcer_has_rules_of_its_own(self) -> None:
        other = policy.Enforcer(self.enforcer.conf)
        other.register_default(policy.RuleDefault('start', 'role:reader'))

        self.assertTrue(other.enforce('start', {}, dict(READER)))
        self.assertFalse(self.allows('start', READER))

    def test_a_rule_of_the_old_kind_is_a_list(self) -> None:
        self.assertEqual(
            'role:admin', str(_parser.parse_rule([['role:admin']]))
        )
