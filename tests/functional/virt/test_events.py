# SPDX-License-Identifier: Apache-2.0

"""What the events of a server say of its resources."""

import datetime
from typing import Any
from unittest import mock

import fixtures
from nova import context as nova_context
from nova import objects
from nova.objects import instance as instance_obj
from oslo_utils import timeutils
from oslo_utils import uuidutils

from nova_ext_resources.virt.driver import events
from tests.functional.virt import base


class EventsTest(base.NovaTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.service = self.start_host('host1')
        self.server = self.boot(self.make_pinned_flavor(4))
        self.instance = instance_obj.Instance.get_by_uuid(
            nova_context.get_admin_context(), self.server['id']
        )

    def make_context(self, request_id: str, **kwargs: Any) -> Any:
        return nova_context.RequestContext(
            'user', 'project', is_admin=True, request_id=request_id, **kwargs
        )

    def begin(self, **kwargs: Any) -> Any:
        context = self.make_context(
            f'req-{uuidutils.generate_uuid()}', **kwargs
        )
        objects.InstanceAction.action_start(
            context, self.server['id'], 'reboot'
        )
        return context

    def report(self, context: Any, error: Exception | None = None) -> None:
        with events.reported(context, events.APPLY, 'host1', self.instance):
            if error:
                raise error

    def list_recorded(self, context: Any) -> list[Any]:
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

        (event,) = self.list_recorded(context)
        self.assertEqual('Error', event.result)
        self.assertIsNotNone(event.finish_time)

    def test_the_traceback_ends_with_the_whole_reason(self) -> None:
        context = self.begin()
        reason = 'no ways ' * 3000

        self.assertRaises(ValueError, self.report, context, ValueError(reason))

        (event,) = self.list_recorded(context)
        self.assertEqual('ValueError', event.details)
        # As much as fits into MySQL's column.
        self.assertEqual(16_000, len(event.traceback))
        self.assertEqual(f'{reason}\n'[-16_000:], event.traceback)

    def test_a_request_that_is_older_than_the_process(self) -> None:
        hour = datetime.timedelta(hours=1)
        context = self.begin(timestamp=timeutils.utcnow() - hour)
        self.report(context)
        # The process that comes next does not know what this one has begun.
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.virt.driver.events._BEGUN', events._Begun()
            )
        )

        self.assertRaises(ValueError, self.report, context, ValueError())

        (event,) = self.list_recorded(context)
        self.assertEqual('Error', event.result)

    def test_one_that_could_not_begin_begins_later(self) -> None:
        context = self.begin()
        with mock.patch.object(
            objects.InstanceActionEvent, 'event_start', side_effect=OSError
        ):
            self.report(context)
        self.assertEqual([], self.list_recorded(context))

        self.report(context)

        (event,) = self.list_recorded(context)
        self.assertEqual('Success', event.result)

    def test_nova_is_not_asked_for_what_began_here(self) -> None:
        context = self.begin()
        with mock.patch.object(
            objects.InstanceAction, 'get_by_request_id', side_effect=OSError
        ):
            self.report(context)
            self.report(context)

        (event,) = self.list_recorded(context)
        self.assertEqual('Success', event.result)

    def test_a_request_without_an_action(self) -> None:
        self.report(self.begin())

        self.report(self.make_context('req-of-no-action'))

        self.assertNotIn('could not be reported', self.stdlog.logger.output)

    def test_the_oldest_are_forgotten(self) -> None:
        begun = events._Begun()
        keys = [(str(n), 'server', 'event') for n in range(1001)]

        for key in keys:
            begun.add(key)

        self.assertNotIn(keys[0], begun)
        self.assertIn(keys[1], begun)
        self.assertIn(keys[-1], begun)

    def test_the_last_outcome_counts(self) -> None:
        context = self.begin()
        self.assertRaises(ValueError, self.report, context, ValueError())

        self.report(context)

        (event,) = self.list_recorded(context)
        self.assertEqual('Success', event.result)

    def test_a_start_of_the_host_is_of_no_action(self) -> None:
        context = self.begin()
        self.report(context)
        before = self.list_recorded(context)[0].finish_time

        self.report(nova_context.get_admin_context())

        (event,) = self.list_recorded(context)
        self.assertEqual(before, event.finish_time)
