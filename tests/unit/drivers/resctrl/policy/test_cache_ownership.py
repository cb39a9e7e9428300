# SPDX-License-Identifier: Apache-2.0

import dataclasses
from typing import Any

import hypothesis
from hypothesis import strategies as st

from nova_ext_resources.drivers.resctrl.kernel import info
from nova_ext_resources.drivers.resctrl.kernel import schemata
from nova_ext_resources.drivers.resctrl.policy import ownership
from nova_ext_resources.objects import bitmask
from tests import base
from tests.unit import strategies  # noqa: F401 - sets the profile

FULL = 0x7FF


def make_domain(
    *, full: int = FULL, allocated: int = 0, shareable: int = 0, **fields: Any
) -> ownership.CacheOwnership:
    cache = {
        name: fields.pop(name)
        for name in ('is_sparse', 'min_bits')
        if name in fields
    }
    return ownership.CacheOwnership(
        info=info.CacheInfo(num_closids=16, full=full, **cache),
        io=shareable,
        servers={'server': allocated},
        **{'default': full, **fields},
    )


def find_default(domain: ownership.CacheOwnership) -> int:
    return domain.find_default(domain.taken)


_mask = st.integers(min_value=0, max_value=FULL)

_domains = st.builds(
    make_domain,
    default=_mask,
    allocated=st.integers(min_value=0, max_value=0x7F),
    foreign=st.one_of(st.just(0), _mask),
    locked=st.sampled_from([0, 0b11, 0b1100]),
    shareable=st.sampled_from([0, 0x600, 0x3]),
    is_sparse=st.booleans(),
    min_bits=st.integers(min_value=1, max_value=2),
    host_ways=st.integers(min_value=1, max_value=4),
)


class HostWaysTest(base.TestCase):
    def test_the_highest_ways_are_the_hosts(self) -> None:
        self.assertEqual(0x400, make_domain().host)
        self.assertEqual(0x700, make_domain(host_ways=3).host)

    def test_ways_that_io_fills_are_the_hosts_and_count(self) -> None:
        self.assertEqual(0x600, make_domain(shareable=0x600).host)
        self.assertEqual(0x700, make_domain(shareable=0x600, host_ways=3).host)
        self.assertEqual(0x003, make_domain(shareable=0x003).host)
        self.assertEqual(0x007, make_domain(shareable=0x003, host_ways=3).host)

    def test_ways_that_io_fills_at_both_ends_are_no_run(self) -> None:
        domain = make_domain(full=0xFFFFF, shareable=0xC0001)

        self.assertEqual(0xC0000, domain.host)
        self.assertEqual(17, domain.free.bit_count())
        self.assertEqual(0x3FFFE, domain.free)

    @hypothesis.given(shareable=st.integers(min_value=0, max_value=FULL))
    def test_ways_that_io_fills_never_keep_all_others_from_being_allocated(
        self, shareable: int
    ) -> None:
        domain = make_domain(shareable=shareable)

        self.assertTrue(not domain.host or bitmask.is_contiguous(domain.host))
        self.assertEqual(
            FULL & ~shareable,
            domain.free | (0 if shareable else domain.host),
        )

    def test_no_fewer_than_the_kernel_takes(self) -> None:
        self.assertEqual(0x600, make_domain(min_bits=2).host)

    def test_ways_that_are_allocated_already_are_left(self) -> None:
        self.assertEqual(0x080, make_domain(allocated=0x700).host)

    def test_ways_that_no_group_can_have_are_not_the_hosts(self) -> None:
        self.assertEqual(0x080, make_domain(locked=0x700).host)
        self.assertEqual(0x080, make_domain(exclusive=0x700).host)

    def test_with_nothing_left_there_are_none(self) -> None:
        self.assertEqual(0, make_domain(allocated=FULL).host)

    @hypothesis.given(domain=_domains)
    def test_they_are_a_run_that_no_server_has_for_itself(
        self, domain: ownership.CacheOwnership
    ) -> None:
        host = domain.host

        self.assertFalse(host & (domain.taken | domain.locked))
        self.assertTrue(not host or bitmask.is_contiguous(host))

    @hypothesis.given(domain=_domains)
    def test_they_are_enough_wherever_there_is_room(
        self, domain: ownership.CacheOwnership
    ) -> None:
        length = max(domain.host_ways, domain.info.min_bits)
        usable = FULL & ~(domain.taken | domain.locked)
        if bitmask.has_run(usable, length):
            self.assertGreaterEqual(domain.host.bit_count(), length)


class FreeTest(base.TestCase):
    def test_ways_without_an_owner_are_free(self) -> None:
        domain = make_domain(allocated=0x00F, foreign=0x030, shareable=0x600)

        self.assertEqual(0x1C0, domain.free)

    def test_pseudo_locked_ways_are_not_free(self) -> None:
        self.assertEqual(0x3FC, make_domain(locked=0b11).free)

    @hypothesis.given(domain=_domains)
    def test_free_ways_have_no_owner(
        self, domain: ownership.CacheOwnership
    ) -> None:
        others = domain.taken | domain.foreign | domain.locked | domain.host

        self.assertFalse(domain.free & (others | domain.io))
        self.assertFalse(domain.free & ~FULL)

    @hypothesis.given(domain=_domains, data=st.data())
    def test_a_run_of_free_ways_is_allowed_and_leaves_the_hosts(
        self, domain: ownership.CacheOwnership, data: st.DataObject
    ) -> None:
        length = max(domain.host_ways, domain.info.min_bits)
        hypothesis.assume(domain.free and domain.host.bit_count() >= length)
        run = data.draw(st.sampled_from(list(bitmask.list_runs(domain.free))))
        mask = bitmask.make_run(*run)

        after = domain.with_runs({'other': schemata.Ways(mask)})

        self.assertTrue(domain.allows(mask))
        self.assertEqual(domain.host, after.host)


class DefaultTest(base.TestCase):
    def test_it_has_all_when_nothing_is_sold(self) -> None:
        self.assertEqual(FULL, find_default(make_domain(default=0x400)))

    def test_it_gives_up_what_is_sold(self) -> None:
        self.assertEqual(0x7F0, find_default(make_domain(allocated=0x00F)))

    def test_it_is_one_run_with_the_hosts_ways(self) -> None:
        self.assertEqual(0x7C0, find_default(make_domain(allocated=0x030)))

    def test_it_keeps_every_way_where_holes_are_allowed(self) -> None:
        domain = make_domain(allocated=0x030, is_sparse=True)

        self.assertEqual(0x7CF, find_default(domain))

    def test_it_does_not_grow_into_ways_of_others(self) -> None:
        domain = make_domain(default=0x7F0, foreign=0x00C)

        self.assertEqual(0x7F0, find_default(domain))

    def test_it_goes_on_sharing_what_it_shared(self) -> None:
        self.assertEqual(FULL, find_default(make_domain(foreign=0x00C)))

    def test_it_leaves_ways_that_others_have_for_themselves(self) -> None:
        domain = make_domain(foreign=0x00C, exclusive=0x00C)

        self.assertEqual(0x7F0, find_default(domain))

    @hypothesis.given(domain=_domains)
    def test_the_kernel_takes_it_and_allocated_ways_are_left_out(
        self, domain: ownership.CacheOwnership
    ) -> None:
        wanted = find_default(domain)

        self.assertFalse(wanted & (domain.taken | domain.locked))
        self.assertEqual(domain.host, domain.host & wanted)
        if wanted and not domain.info.is_sparse:
            self.assertTrue(bitmask.is_contiguous(wanted))

    @hypothesis.given(domain=_domains)
    def test_doing_it_twice_changes_nothing(
        self, domain: ownership.CacheOwnership
    ) -> None:
        once = find_default(domain)

        again = dataclasses.replace(domain, default=once)

        self.assertEqual(once, find_default(again))


class AllowsTest(base.TestCase):
    def test_ways_of_others_are_not_allowed(self) -> None:
        for name in ('allocated', 'foreign', 'exclusive', 'locked'):
            with self.subTest(name=name):
                self.assertFalse(make_domain(**{name: 0b1}).allows(0b11))

    def test_ways_beyond_the_cache_are_not_allowed(self) -> None:
        self.assertFalse(make_domain().allows(0x800))

    def test_something_must_be_left_to_the_host(self) -> None:
        self.assertFalse(make_domain().allows(FULL))
        self.assertFalse(make_domain(host_ways=3).allows(0x1FF))
        self.assertTrue(make_domain(host_ways=2).allows(0x1FF))

    def test_ways_that_io_fills_stay_with_who_has_them(self) -> None:
        self.assertTrue(make_domain(shareable=0x600).allows(0x700))
