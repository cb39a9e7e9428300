# SPDX-License-Identifier: Apache-2.0

"""Whose it is what a move has kept."""

import dataclasses
import unittest

from nova_ext_resources.host import kept
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import requirement
from nova_ext_resources.objects import role

Role = role.Role
Purpose = assignment.Purpose

_NOTHING: dict[str, dict[str, int]] = {}


def _allocate(amount: int, rp_uuid: str = 'rp') -> dict[str, dict[str, int]]:
    return {rp_uuid: {'SEAT': amount}}


def _make_entry(
    amount: int,
    purpose: Purpose,
    cpus: frozenset[int] | None = None,
    policy: str = '',
) -> assignment.Entry:
    is_kept = purpose is Purpose.KEPT
    return assignment.Entry(
        consumer_uuid='migration' if is_kept else 'server',
        server_uuid='server',
        purpose=purpose,
        cpus=cpus,
        enforcers={'rmd': {'policy': policy}} if policy else {},
        assignments=(
            assignment.Assignment(
                rp_uuid='rp',
                rp_key='key',
                resource_class='SEAT',
                amount=amount,
            ),
            assignment.Assignment(
                rp_uuid='rp',
                rp_key='key',
                resource_class='IMPLIED',
                amount=1,
                is_allocated=False,
            ),
        ),
    )


def _make_request(
    amount: int, cpus: frozenset[int] | None = None, policy: str = ''
) -> assignment.ClaimRequest:
    group = requirement.RequestGroup(suffix='', resources={'SEAT': amount})
    return assignment.ClaimRequest(
        consumer_uuid='server',
        allocations={},
        cpus=cpus,
        requirement=requirement.Requirement(
            groups=(group,) if amount else (),
            enforcers={'rmd': {'policy': policy}} if policy else {},
        ),
    )


KEPT = _make_entry(2, Purpose.KEPT)
OWN = _make_entry(4, Purpose.OWN)
INCOMING = _make_entry(4, Purpose.INCOMING)


class KeptTest(unittest.TestCase):
    def assert_role(
        self,
        expected: Role,
        own: assignment.Entry | None,
        of_server: dict[str, dict[str, int]],
        of_migration: dict[str, dict[str, int]] = _NOTHING,
        *,
        former: assignment.Entry = KEPT,
        request: assignment.ClaimRequest | None = None,
    ) -> None:
        found = kept.find_role(
            former,
            own,
            request or _make_request(4),
            of_server=of_server,
            of_migration=of_migration,
        )
        self.assertIs(expected, found)

    def test_it_is_the_servers_that_has_its_allocations_back(self) -> None:
        for own in (None, INCOMING, OWN):
            self.assert_role(Role.RETURNED, own, _allocate(2))

    def test_it_is_left_by_one_that_has_the_new_ones(self) -> None:
        for own in (INCOMING, OWN):
            self.assert_role(Role.LEFT, own, _allocate(4))
            # Nova has not deleted those of the migration.
            self.assert_role(Role.LEFT, own, _allocate(4), _allocate(2))

    def test_the_new_flavor_may_be_one_without(self) -> None:
        request = _make_request(0)

        self.assert_role(Role.LEFT, None, _NOTHING, request=request)
        self.assert_role(
            Role.LEFT, None, _NOTHING, _allocate(2), request=request
        )

    def test_so_may_be_one_whose_guest_did_not_start(self) -> None:
        """Nova gives it its former flavor back, and no allocations."""
        request = _make_request(2)

        self.assert_role(Role.LEFT, None, _NOTHING, request=request)

    def test_nova_was_killed_before_it_gave_them_back(self) -> None:
        request = _make_request(2)

        self.assert_role(
            Role.RETURNED, None, _NOTHING, _allocate(2), request=request
        )

    def test_so_if_that_was_of_several_domains(self) -> None:
        (own, implied) = KEPT.assignments
        former = dataclasses.replace(
            KEPT,
            assignments=(
                own,
                dataclasses.replace(own, rp_uuid='other'),
                implied,
            ),
        )
        given = {**_allocate(2), **_allocate(2, 'other')}

        for amount, expected in ((2, Role.RETURNED), (4, Role.RETURNED)):
            self.assert_role(
                expected,
                None,
                _NOTHING,
                given,
                former=former,
                request=_make_request(amount),
            )
        self.assert_role(
            Role.LEFT,
            None,
            _NOTHING,
            given,
            former=former,
            request=_make_request(3),
        )

    def test_and_while_the_server_has_what_its_guest_never_got(self) -> None:
        request = _make_request(2)
        for own, expected in (
            (INCOMING, Role.RETURNED),
            (OWN, Role.LEFT),
        ):
            self.assert_role(
                expected, own, _allocate(4), _allocate(2), request=request
            )

    def test_doubt(self) -> None:
        self.assert_role(Role.IN_DOUBT, None, _allocate(4), _allocate(2))
        self.assert_role(Role.IN_DOUBT, OWN, _allocate(3))
        self.assert_role(Role.IN_DOUBT, OWN, _allocate(2, 'other'))
        self.assert_role(Role.IN_DOUBT, OWN, _NOTHING)

    def test_it_is_still_the_migrations(self) -> None:
        self.assert_role(Role.IN_DOUBT, None, _allocate(2), _allocate(2))

    def test_of_equal_ones_the_server_keeps_its_own(self) -> None:
        for purpose in (Purpose.OWN, Purpose.INCOMING):
            own = _make_entry(2, purpose)
            self.assert_role(Role.LEFT, own, _allocate(2))

    def test_unless_nova_has_the_flavor_of_the_other(self) -> None:
        former, own = (
            dataclasses.replace(one, flavor=flavor)
            for one, flavor in (
                (KEPT, 'old'),
                (_make_entry(2, Purpose.INCOMING), 'new'),
            )
        )
        for flavor, expected in (('old', Role.RETURNED), ('new', Role.LEFT)):
            request = dataclasses.replace(_make_request(2), flavor=flavor)
            self.assert_role(
                expected, own, _allocate(2), former=former, request=request
            )

    def test_unless_nova_has_its_former_cpus_or_enforcers(self) -> None:
        old, new = frozenset({1}), frozenset({2})
        former = _make_entry(2, Purpose.KEPT, old, 'gold')
        own = _make_entry(2, Purpose.INCOMING, new, 'silver')
        mixed = _make_request(2, new, 'gold')
        for request, expected in (
            (_make_request(2, old, 'gold'), Role.RETURNED),
            (_make_request(2, new, 'silver'), Role.LEFT),
            (mixed, Role.LEFT),
        ):
            self.assert_role(
                expected, own, _allocate(2), former=former, request=request
            )
