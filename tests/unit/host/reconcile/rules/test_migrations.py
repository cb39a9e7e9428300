# SPDX-License-Identifier: Apache-2.0

"""Whose it is what a move has kept."""

import dataclasses
import unittest

from nova_ext_resources.facts import consumer_role
from nova_ext_resources.host.reconcile.rules import migrations
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import requirements

Role = consumer_role.Role
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
    is_kept = purpose is Purpose.MIGRATION_SOURCE
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
    group = requirements.RequestGroup(suffix='', resources={'SEAT': amount})
    return assignment.ClaimRequest(
        consumer_uuid='server',
        allocations={},
        cpus=cpus,
        requirement=requirements.Requirement(
            groups=(group,) if amount else (),
            enforcers={'rmd': {'policy': policy}} if policy else {},
        ),
    )


MIGRATION_SOURCE = _make_entry(2, Purpose.MIGRATION_SOURCE)
OWN = _make_entry(4, Purpose.OWN)
MIGRATION_DEST = _make_entry(4, Purpose.MIGRATION_DEST)


class KeptTest(unittest.TestCase):
    def assert_role(
        self,
        expected: Role,
        own: assignment.Entry | None,
        of_server: dict[str, dict[str, int]],
        of_migration: dict[str, dict[str, int]] = _NOTHING,
        *,
        former: assignment.Entry = MIGRATION_SOURCE,
        request: assignment.ClaimRequest | None = None,
        spreads: bool = False,
    ) -> None:
        found = migrations.find_role(
            former,
            own,
            request or _make_request(4),
            of_server=of_server,
            of_migration=of_migration,
            spreads=spreads,
        )
        self.assertIs(expected, found)

    def test_it_is_the_servers_that_has_its_allocations_back(self) -> None:
        for own in (None, MIGRATION_DEST, OWN):
            self.assert_role(Role.RETURNED, own, _allocate(2))

    def test_it_is_left_by_one_that_has_the_new_ones(self) -> None:
        for own in (MIGRATION_DEST, OWN):
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

    def assert_several(
        self,
        expected: Role,
        amount: int,
        new: assignment.ClaimRequest,
        flavor: str | None,
        *,
        spreads: bool,
    ) -> None:
        """Have as much of two domains kept; Nova says ``new`` of the server.

        :param amount: of each domain
        :param flavor: for which it was kept
        """
        (own, implied) = _make_entry(
            amount, Purpose.MIGRATION_SOURCE
        ).assignments
        other = dataclasses.replace(own, rp_uuid='other')
        self.assert_role(
            expected,
            None,
            _NOTHING,
            {**_allocate(amount), **_allocate(amount, 'other')},
            former=dataclasses.replace(
                MIGRATION_SOURCE,
                assignments=(own, other, implied),
                flavor=flavor,
            ),
            request=dataclasses.replace(new, flavor='new'),
            spreads=spreads,
        )

    def test_so_if_that_was_of_several_domains(self) -> None:
        two, four, three = map(_make_request, (2, 4, 3))
        for flavor, new, expected in (
            ('new', two, Role.RETURNED),
            # Its ledger was upgraded.
            (None, two, Role.RETURNED),
            ('new', three, Role.LEFT),
            # A resize to a flavor of one domain, with as much in all.
            ('old', four, Role.LEFT),
            (None, four, Role.LEFT),
            # A resize to one that has the amount of each in one domain.
            ('old', two, Role.LEFT),
        ):
            self.assert_several(expected, 2, new, flavor, spreads=True)

    def test_so_if_that_was_of_several_groups(self) -> None:
        groups = tuple(
            requirements.RequestGroup(suffix=suffix, resources={'SEAT': 4})
            for suffix in ('_A', '_B')
        )
        same = dataclasses.replace(
            _make_request(4),
            requirement=requirements.Requirement(groups=groups),
        )
        for spreads in (False, True):
            self.assert_several(Role.RETURNED, 4, same, 'new', spreads=spreads)
            # A resize to a flavor of one group.
            self.assert_several(
                Role.LEFT, 4, _make_request(4), 'old', spreads=spreads
            )

    def test_a_host_that_spreads_no_more(self) -> None:
        """What was kept before may be of several domains."""
        two, four = map(_make_request, (2, 4))
        for flavor, new, expected in (
            ('new', two, Role.RETURNED),
            # As without spreading: the sum counts, of any flavor.
            ('old', two, Role.LEFT),
            (None, two, Role.LEFT),
            ('old', four, Role.RETURNED),
            (None, four, Role.RETURNED),
        ):
            self.assert_several(expected, 2, new, flavor, spreads=False)

    def test_and_while_the_server_has_what_its_guest_never_got(self) -> None:
        request = _make_request(2)
        for own, expected in (
            (MIGRATION_DEST, Role.RETURNED),
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
        for purpose in (Purpose.OWN, Purpose.MIGRATION_DEST):
            own = _make_entry(2, purpose)
            self.assert_role(Role.LEFT, own, _allocate(2))

    def test_unless_nova_has_the_flavor_of_the_other(self) -> None:
        former, own = (
            dataclasses.replace(one, flavor=flavor)
            for one, flavor in (
                (MIGRATION_SOURCE, 'old'),
                (_make_entry(2, Purpose.MIGRATION_DEST), 'new'),
            )
        )
        for flavor, expected in (('old', Role.RETURNED), ('new', Role.LEFT)):
            request = dataclasses.replace(_make_request(2), flavor=flavor)
            self.assert_role(
                expected, own, _allocate(2), former=former, request=request
            )

    def test_unless_nova_has_its_former_cpus_or_enforcers(self) -> None:
        old, new = frozenset({1}), frozenset({2})
        former = _make_entry(2, Purpose.MIGRATION_SOURCE, old, 'gold')
        own = _make_entry(2, Purpose.MIGRATION_DEST, new, 'silver')
        mixed = _make_request(2, new, 'gold')
        for request, expected in (
            (_make_request(2, old, 'gold'), Role.RETURNED),
            (_make_request(2, new, 'silver'), Role.LEFT),
            (mixed, Role.LEFT),
        ):
            self.assert_role(
                expected, own, _allocate(2), former=former, request=request
            )
