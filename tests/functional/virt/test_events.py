# SPDX-License-Identifier: Apache-2.0

"""What the events of a server say of its resources."""

from typing import Any

from nova import context as nova_context
from nova import objects
from nova.objects import instance as instance_obj

from nova_ext_resources.virt import events
from tests.functional.virt import base


class EventsTest(base.NovaTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.service = self.start_host('host1')
        self.server = self.boot(self.make_pinned_flavor(4))
        self.instance = instance_obj.Instance.get_by_uuid(
            nova_context.get_admin_context(), self.server['id']
        )

    def make_context(self, request_id: str) -> Any:
        return nova_context.RequestContext(
            'user', 'project', is_admin=True, request_id=request_id
        )

    def begin(self) -> Any:
        context = self.make_context('req-00000000-begun')
        objects.InstanceAction.action_start(
            context, self.server['id'], 'reboot'
        )
        return context

    def report(self, context: Any, error: Exception | None = None) -> None:
        with events.reported(context, events.APPLY, 'host1', self.instance):
            if error:
                raise error

    def list_events(self, context: Any) -> list[Any]:
        action = objects.InstanceAction.get_by_request_id(
            context, self.server['id'], context.request_id
        )
        found = objects.InstanceActionEventList.get_by_action(
            context, action.id
        )
        return list(found)

    def test_two_reports_of_an_action_are_one_event(self) -> None:
        context = self.begin()
        self.report(context)

        self.assertRaises(
            ValueError, self.report, context, ValueError('no ways')
        )

        (event,) = self.list_events(context)
        self.assertEqual('Error', event.result)
        self.assertIsNotNone(event.finish_time)

    def test_the_last_outcome_counts(self) -> None:
        context = self.begin()
        self.assertRaises(ValueError, self.report, context, ValueError())

        self.report(context)

        (event,) = self.list_events(context)
        self.assertEqual('Success', event.result)

    def test_a_start_of_the_host_is_of_no_action(self) -> None:
        context = self.begin()
        self.report(context)
        before = self.list_events(context)[0].finish_time

        self.report(nova_context.get_admin_context())

        (event,) = self.list_events(context)
        self.assertEqual(before, event.finish_time)
