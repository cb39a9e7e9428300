# SPDX-License-Identifier: Apache-2.0

"""Rules of policies that are parsed once, and loaded when they change.

oslo.policy parses all rules for each test, and looks at all of them and for
files in some folders at each decision.
"""

import functools
from typing import Any

import fixtures
from oslo_policy import _parser
from oslo_policy import policy


def install() -> None:
    """Parse each rule once, and load rules anew only when there are others."""
    _parser.parse_rule = parse_once(_parser.parse_rule)
    enforcer: Any = policy.Enforcer
    enforcer.load_rules = load_once(enforcer.load_rules)


def parse_once(parse: Any) -> Any:
    """Remember the checks of a rule; nothing changes them after parsing."""
    parse_text = functools.cache(parse)

    @functools.wraps(parse)
    def find(rule: Any) -> Any:
        # The old kind of rules are lists.
        return parse_text(rule) if isinstance(rule, str) else parse(rule)

    return find


def load_once(load: Any) -> Any:
    """Load again what was set or registered, but not from a changed file.

    No test changes the file of a policy that a service has loaded.
    """

    @functools.wraps(load)
    def load_rules(self: Any, force_reload: bool = False) -> None:
        loaded = getattr(self, '_loaded_in_test', None)
        if force_reload or not _is_current(self, loaded):
            load(self, force_reload)
            self._loaded_in_test = self.rules, len(self.registered_rules)

    return load_rules


def _is_current(enforcer: Any, loaded: Any) -> bool:
    """Return whether nothing was set or registered since."""
    if loaded is None:
        return False
    rules, number = loaded
    return rules is enforcer.rules and number == len(enforcer.registered_rules)


class NoFakePolicy(fixtures.Fixture):
    """Spares Nova's test base a policy of fakes, with hundreds of rules.

    The base of functional tests replaces it by the real one at once.
    """

    def _setUp(self) -> None:
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.tests.fixtures.PolicyFixture', fixtures.Fixture
            )
        )
