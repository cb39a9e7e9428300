# SPDX-License-Identifier: Apache-2.0

from collections.abc import Mapping
from typing import Any
import warnings

from nova_ext_resources.claims import base as plugin_base
from nova_ext_resources.claims.trackers import count
from nova_ext_resources.drivers import base as driver_base
from nova_ext_resources.drivers.noop import enforcer
from tests import base


def make_class(kind: type, **methods: Any) -> tuple[Any, list[str]]:
    """Make a plugin's class; return it with the warnings that this gave."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter('always')
        made = type('Own', (kind,), methods)
    return made, [str(one.message) for one in caught]


class RenamedMethodsTest(base.TestCase):
    def test_a_plugin_may_have_former_names(self) -> None:
        def take(
            self: Any, state: Any, amount: int, units: Any = None
        ) -> tuple[Any, Mapping[str, Any]]:
            parent: Any = super(made, self)
            after, _units = parent.take(state, amount, units)
            return after, {'own': True}

        made, warned = make_class(count.CountTracker, take=take)
        state = count.CountState(capacity=4, used=1)

        after, units = made().allocate(state, 2)

        self.assertEqual((3, {'own': True}), (after.used, units))
        self.assertEqual(state, made().give(after, 2, units))
        self.assertEqual(['Own.take has to be named allocate'], warned)

    def test_all_abstract_methods_may_have_former_names(self) -> None:
        methods = ('initial', 'fits', 'take', 'give')

        made, _warned = make_class(
            plugin_base.Tracker, **dict.fromkeys(methods, lambda self: 'own')
        )

        self.assertEqual('own', made().free())
        self.assertTrue(made().understands({}))

    def test_an_enforcer_may_have_former_names(self) -> None:
        made, warned = make_class(
            enforcer.NoopEnforcer,
            find_fault=lambda self, entry: 'own',
            recover_units=lambda self, entry: None,
        )
        one = made(None, 'host1')

        self.assertEqual('own', one.find_entry_problem(None))
        self.assertIsNone(one.recognize(None))
        self.assertEqual('', one.find_obstacle())
        self.assertEqual(
            ['Own.find_fault has to be named find_entry_problem'], warned
        )

    def test_former_names_are_names_of_nothing_else(self) -> None:
        for kind in (plugin_base.Tracker, driver_base.Enforcer):
            for former, name in kind.RENAMED.items():
                self.assertIs(getattr(kind, name), getattr(kind, former))
