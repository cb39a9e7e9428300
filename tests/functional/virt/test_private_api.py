# SPDX-License-Identifier: Apache-2.0

"""What is used of Nova is there, in each release; fails when one is gone."""

from collections.abc import Iterator
import inspect
import sys
from typing import Any
from unittest import mock

from nova.compute import resource_tracker as nova_tracker
from nova import objects

from nova_ext_resources.scheduler import filters
from nova_ext_resources.scheduler.hooks import claim_hook
from nova_ext_resources.scheduler.hooks import request_context
from nova_ext_resources.scheduler.reservation import inventory_snapshot
from nova_ext_resources.scheduler import validators
from nova_ext_resources.scheduler import weighers
from nova_ext_resources.virt.compat import private_api
from nova_ext_resources.virt.driver import fake
from nova_ext_resources.virt.driver import libvirt
from nova_ext_resources.virt.hooks import numa_choice
from nova_ext_resources.virt.hooks import resource_tracker
from nova_ext_resources.virt.provider_config import old_inventory
from tests import base

#: Our classes that Nova's code calls.
_OURS = (
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


def list_replaced(tracker: Any) -> Iterator[str]:
    """Return each function of ours that Nova finds in place of its own."""
    for module, found in [*sys.modules.items()]:
        if module.startswith('nova.') and module != 'nova.virt.ext_resources':
            yield from list_own(f'{module}:', found)
            for name, cls in [*vars(found).items()]:
                if inspect.isclass(cls) and cls.__module__ == module:
                    yield from list_own(f'{module}:{name}.', cls)
    cls = type(tracker)
    yield from list_own(f'{cls.__module__}:{cls.__name__}.', tracker)


def list_own(prefix: str, owner: Any) -> Iterator[str]:
    for name, one in [*vars(owner).items()]:
        if inspect.isfunction(one):
            if one.__globals__['__name__'].startswith('nova_ext_resources.'):
                yield prefix + name


class PrivateApiTest(base.TestCase):
    def setUp(self) -> None:
        super().setUp()
        objects.register_all()

    def test_nova_has_every_name(self) -> None:
        for name in private_api.NAMES:
            with self.subTest(name=name):
                self.assertTrue(private_api.exists(name))
        self.assertEqual([], private_api.find_missing())

    def test_a_name_that_is_gone_is_found(self) -> None:
        gone = [
            'nova.compute.resource_tracker:ResourceTracker.claim_of_yore',
            'nova.compute.task_states:DREAMING',
            'nova.virt.nowhere:Driver.spawn',
        ]

        # That of a module that is not in use here is no loss.
        self.assertEqual(gone[:2], private_api.find_missing(gone))

    def test_a_method_that_takes_something_else_is_found(self) -> None:
        method = 'nova.compute.claims:MoveClaim.__init__'
        others = [
            f'{method}(context, instance_type)',
            f'{method}(instance)',
        ]

        self.assertEqual(
            others,
            private_api.find_missing(
                [f'{method}(context, instance)', *others]
            ),
        )

    def test_what_is_replaced_is_listed_and_nothing_else(self) -> None:
        tracker = object.__new__(nova_tracker.ResourceTracker)
        numa_choice.watch(tracker, mock.Mock())
        resource_tracker.watch(tracker, mock.Mock(), mock.Mock())
        old_inventory.OldInventoryUpdates(
            mock.Mock(), tracker=tracker, location='', make_request=mock.Mock()
        )
        request_context.install()
        claim_hook.install()
        inventory_snapshot._add_task()
        data = 'nova.compute.resource_tracker:ResourceTracker.provider_configs'

        self.assertEqual(
            {*private_api.REPLACED} - {data}, {*list_replaced(tracker)}
        )
        self.assertIn(data, private_api.REPLACED)

    def test_every_override_is_listed(self) -> None:
        listed = {name.rpartition('.')[2] for name in private_api.NAMES}
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
