# SPDX-License-Identifier: Apache-2.0

"""Tests of what sets a lease right."""

import dataclasses
from typing import Any

from nova_ext_resources.reservation.blazar import repair
from tests import base

Step = repair.Step

NOW = 10_000
LONG_AGO = NOW - repair.STALE_SECONDS
JUST_NOW = LONG_AGO + 1


def make_lease(
    status: str,
    start: str,
    end: str,
    own: str = 'pending',
    changed_at: int = LONG_AGO,
    **fields: Any,
) -> repair.Lease:
    """Make a lease that has begun, with a reservation of ours."""
    return repair.Lease(
        key='lease',
        status=status,
        changed_at=changed_at,
        reservations={'key': own},
        events={
            name: repair.Event(key=name, status=one, changed_at=changed_at)
            for name, one in ((repair.START, start), (repair.END, end))
        },
        **{'starts_at': NOW - 500, 'ends_at': NOW + 500, **fields},
    )


class StepTest(base.TestCase):
    def test_what_is_well_is_left_alone(self) -> None:
        for lease in (
            make_lease('PENDING', 'UNDONE', 'UNDONE'),
            make_lease('ACTIVE', 'DONE', 'UNDONE', 'active'),
            make_lease('TERMINATED', 'DONE', 'DONE', 'deleted'),
            make_lease('PENDING', 'UNDONE', 'UNDONE', ends_at=NOW - 1),
        ):
            with self.subTest(lease.status):
                self.assertIsNone(repair.find_step(lease, NOW))

    def test_what_was_broken_off(self) -> None:
        for lease, wanted in (
            (make_lease('STARTING', 'IN_PROGRESS', 'UNDONE'), Step.WAIT),
            (
                make_lease('STARTING', 'IN_PROGRESS', 'UNDONE', 'active'),
                Step.WAIT,
            ),
            (make_lease('PENDING', 'IN_PROGRESS', 'UNDONE'), Step.WAIT),
            (make_lease('UPDATING', 'UNDONE', 'UNDONE'), Step.WAIT),
            (make_lease('UPDATING', 'DONE', 'UNDONE', 'active'), Step.GO_ON),
            (make_lease('DELETING', 'DONE', 'UNDONE', 'active'), Step.GO_ON),
            (
                make_lease(
                    'TERMINATING',
                    'DONE',
                    'IN_PROGRESS',
                    'deleted',
                    ends_at=NOW,
                ),
                Step.GO_ON,
            ),
            (make_lease('CREATING', 'UNDONE', 'UNDONE'), Step.FORGET),
        ):
            with self.subTest(lease.status):
                self.assertIs(wanted, repair.find_step(lease, NOW))
                # It may still be going on.
                fresh = dataclasses.replace(
                    lease,
                    changed_at=JUST_NOW,
                    events={
                        name: dataclasses.replace(one, changed_at=JUST_NOW)
                        for name, one in lease.events.items()
                    },
                )
                self.assertIsNone(repair.find_step(fresh, NOW))

    def test_what_blazar_has_given_up(self) -> None:
        for lease, wanted in (
            (make_lease('ERROR', 'ERROR', 'UNDONE'), Step.WAIT),
            (make_lease('ERROR', 'UNDONE', 'UNDONE'), Step.WAIT),
            (make_lease('ERROR', 'DONE', 'UNDONE', 'active'), Step.GO_ON),
            (make_lease('PENDING', 'ERROR', 'UNDONE'), Step.WAIT),
            (
                make_lease('ERROR', 'DONE', 'ERROR', 'active', ends_at=NOW),
                Step.GO_ON,
            ),
            # It never began, and is over.
            (make_lease('ERROR', 'ERROR', 'UNDONE', ends_at=NOW), Step.GO_ON),
        ):
            with self.subTest(lease.status):
                fresh = dataclasses.replace(lease, changed_at=NOW)

                self.assertIs(wanted, repair.find_step(fresh, NOW))

    def test_an_event_that_begins_now_is_no_sign(self) -> None:
        lease = make_lease('STARTING', 'IN_PROGRESS', 'UNDONE')
        event = dataclasses.replace(
            lease.events[repair.START], changed_at=JUST_NOW
        )
        lease = dataclasses.replace(
            lease, events={**lease.events, repair.START: event}
        )

        self.assertIsNone(repair.find_step(lease, NOW))

    def test_leases_with_reservations_of_others(self) -> None:
        for status in ('ERROR', 'CREATING', 'STARTING'):
            lease = make_lease(status, 'ERROR', 'UNDONE', has_others=True)

            self.assertIsNone(repair.find_step(lease, NOW))

    def test_leases_that_lack_an_event(self) -> None:
        lease = make_lease('ERROR', 'ERROR', 'UNDONE')
        lease = dataclasses.replace(lease, events={})

        self.assertIsNone(repair.find_step(lease, NOW))
