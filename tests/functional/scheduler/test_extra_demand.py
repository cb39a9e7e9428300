# SPDX-License-Identifier: Apache-2.0

"""What a server of a reservation has besides what was reserved for it."""

import dataclasses
from typing import Any
from unittest import mock

from nova import exception as nova_exc
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.reservation import host as host_mod
from nova_ext_resources.reservation import plan_request
from nova_ext_resources.scheduler.hooks import request_context
from nova_ext_resources.scheduler import request
from tests.functional.scheduler import reserving
from tests.unit.reservation import hosts as planned

GPU = 'CUSTOM_GPU'
TOTALS = {'VCPU': 8, GPU: 4}


class Placement:
    """What has been claimed of the host by now."""

    def __init__(self, **held: dict[str, int]) -> None:
        self.held = held

    def get(self, _url: str, **_kwargs: Any) -> Any:
        response = mock.Mock()
        response.json.return_value = {
            'allocations': {
                consumer: {'resources': amounts}
                for consumer, amounts in self.held.items()
            }
        }
        return response

    def get_allocs_for_consumer(self, _context: Any, server: str) -> Any:
        return {'allocations': {'a': {'resources': self.held[server]}}}

    def delete_allocation_for_instance(
        self, _context: Any, server: str, *, force: bool
    ) -> None:
        del self.held[server]


class ExtraDemandTest(reserving.ReservingTestCase):
    """A host with GPUs, of which a later reservation needs them all."""

    HOSTS = ('a',)

    def setUp(self) -> None:
        super().setUp()
        patch = mock.patch.object(request, 'is_move', return_value=False)
        self.addCleanup(patch.stop)
        patch.start()

    def make_planned(self) -> list[host_mod.Host]:
        made = planned.make_host('a', '', **TOTALS)
        view = dataclasses.replace(made.view, keys={'a': 'a'})
        return [dataclasses.replace(made, view=view)]

    def make_summaries(self) -> dict[str, Any]:
        shown = {
            name: {'capacity': total, 'used': 0}
            for name, total in TOTALS.items()
        }
        return {'a': {'resources': shown}}

    def reserve_gpus(self, start: int) -> None:
        self.reserve(
            'theirs',
            reserving.hours(start, 10),
            demand=planned.make_demand(_={GPU: 4}),
        )

    def boot(self, **resources: int) -> Any:
        """Ask for a server of the reservation; return its request."""
        host = self.make_state('a')
        host.allocation_candidates = [
            {
                'allocations': {'a': {'resources': resources}},
                'mappings': {'': ['a']},
            }
        ]
        spec = self.make_spec(uuidsentinel.mine, 'lease')
        self.assertEqual(['a'], self.run_filter([host], spec))
        return spec, host.allocation_candidates[0]

    def test_who_stays_gets_nothing_that_others_need_later(self) -> None:
        self.reserve_gpus(2)
        self.reserve(during=reserving.hours(0, 1), vcpus=1)

        self.assertRaises(
            nova_exc.NoValidHost, self.boot, VCPU=1, CUSTOM_GPU=4
        )
        # Nobody has the rest of what was reserved.
        self.boot(VCPU=1)

    def test_who_goes_at_the_end_may_have_it_until_then(self) -> None:
        self.reserve_gpus(2)
        self.reserve(
            during=reserving.hours(0, 1),
            vcpus=1,
            at_end=plan_request.AtEnd.DELETE,
        )

        self.boot(VCPU=1, CUSTOM_GPU=4)

    def test_nobody_gets_what_is_promised_before_the_end(self) -> None:
        self.reserve_gpus(1)
        self.reserve(
            during=reserving.hours(0, 3),
            vcpus=1,
            at_end=plan_request.AtEnd.DELETE,
        )

        self.assertRaises(
            nova_exc.NoValidHost, self.boot, VCPU=1, CUSTOM_GPU=1
        )

    def test_what_others_need_later_of_its_own_classes(self) -> None:
        self.reserve('later', reserving.hours(1, 3), vcpus=8)
        self.reserve(during=reserving.hours(0, 1), vcpus=8)

        self.boot(VCPU=8, CUSTOM_GPU=4)

    def check(self, spec: Any, candidate: Any) -> bool:
        """Let Nova claim; return whether the claim stands."""
        mine = dict(candidate['allocations']['a']['resources'])
        placement = Placement(**{uuidsentinel.mine: mine})
        check = request_context.find(spec).check
        assert check is not None
        is_kept = check(mock.Mock(), placement, uuidsentinel.mine, candidate)
        self.assertEqual(is_kept, uuidsentinel.mine in placement.held)
        return is_kept

    def test_a_claim_is_looked_at_for_what_is_promised_meanwhile(
        self,
    ) -> None:
        self.reserve(during=reserving.hours(0, 1), vcpus=1)
        asked = self.boot(VCPU=1, CUSTOM_GPU=1)
        self.assertTrue(self.check(*asked))

        self.reserve_gpus(2)

        self.assertFalse(self.check(*asked))

    def test_a_claim_of_its_own_slot_stands(self) -> None:
        self.reserve(during=reserving.hours(0, 1), vcpus=8)
        asked = self.boot(VCPU=8, CUSTOM_GPU=1)

        self.reserve('later', reserving.hours(1, 3), vcpus=8)

        self.assertTrue(self.check(*asked))

    def test_the_first_reservation_may_come_before_the_claim(self) -> None:
        spec = self.make_spec()
        self.assertEqual(['a'], self.run_filter(self.make_hosts(8), spec))
        candidate = self.make_hosts(8)[0].allocation_candidates[0]

        self.reserve(during=reserving.hours(0, 1), vcpus=8)

        check = request_context.find(spec).check
        assert check is not None
        placement = Placement(**{uuidsentinel.server: {'VCPU': 8}})
        self.assertFalse(
            check(mock.Mock(), placement, uuidsentinel.server, candidate)
        )
