# SPDX-License-Identifier: Apache-2.0

"""What is used of Nova is there, in each release; fails when one is gone."""

from collections.abc import Iterator
import inspect
from typing import Any

from nova import objects

from nova_ext_resources.scheduler import filters
from nova_ext_resources.scheduler import validators
from nova_ext_resources.scheduler import weighers
from nova_ext_resources.virt import events
from nova_ext_resources.virt import fake
from nova_ext_resources.virt import internals
from nova_ext_resources.virt import libvirt
from tests import base

#: Our classes that Nova's code calls.
_OURS = (
    events._Reporter,
    fake.FakeDriver,
    filters.ExtendedResourcesFilter,
    libvirt.LibvirtDriver,
    validators.GrammarValidator,
    weighers.ExtendedResourcesWeigher,
    weighers.ReservationWeigher,
)

#: Get their arguments by position: Nova's own classes give them other names.
_BY_POSITION = frozenset({'_weigh_object', 'host_passes'})

#: Of the language, not of Nova.
_PYTHON = {'__doc__', '__init__', '__module__', '__annotations__', '__dict__'}


def list_overrides() -> Iterator[tuple[Any, Any]]:
    """Return each attribute of ours that takes the place of one of Nova's."""
    for cls in _OURS:
        bases = inspect.getmro(cls)
        theirs = [one for one in bases if one.__module__.startswith('nova.')]
        for own in bases:
            if own.__module__.startswith('nova_ext_resources.'):
                for name in vars(own).keys() - _PYTHON:
                    for other in theirs:
                        if name in vars(other):
                            yield vars(own)[name], vars(other)[name]


class InternalsTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        objects.register_all()

    def test_nova_has_every_name(self) -> None:
        for name in internals.NAMES:
            with self.subTest(name=name):
                self.assertTrue(internals.exists(name))

    def test_a_name_that_is_gone_is_found(self) -> None:
        gone = [
            'nova.compute.resource_tracker:ResourceTracker.claim_of_yore',
            'nova.compute.task_states:DREAMING',
            'nova.virt.nowhere:Driver.spawn',
        ]

        # That of a module that is not in use here is no loss.
        self.assertEqual(gone[:2], internals.find_missing(gone))

    def test_a_method_that_takes_something_else_is_found(self) -> None:
        method = 'nova.compute.claims:MoveClaim.__init__'
        others = [
            f'{method}(context, instance_type)',
            f'{method}(instance)',
        ]

        self.assertEqual(
            others,
            internals.find_missing([f'{method}(context, instance)', *others]),
        )

    def test_every_override_is_listed(self) -> None:
        listed = {
            name.partition('(')[0].rpartition('.')[2]
            for name in internals.NAMES
        }
        overridden = {
            one.__name__ for one, _theirs in list_overrides() if callable(one)
        }

        self.assertEqual(set(), overridden - listed)
        self.assertIn('spawn', overridden)

    def test_an_override_takes_what_nova_passes(self) -> None:
        for ours, theirs in list_overrides():
            if not inspect.isfunction(ours) or ours.__name__ in _BY_POSITION:
                continue
            with self.subTest(name=ours.__qualname__):
                own = inspect.signature(ours).parameters.values()
                after = inspect.Parameter.KEYWORD_ONLY
                names = [one.name for one in own if one.kind < after]
                kinds = {one.kind for one in own}
                passed = list(inspect.signature(theirs).parameters)
                if inspect.Parameter.VAR_POSITIONAL in kinds:
                    passed = passed[: len(names) - 1]
                    names = names[: len(passed)]

                self.assertEqual(passed, names)
