# SPDX-License-Identifier: Apache-2.0

"""Which tests run on which kernel, and on which machine."""

import dataclasses

#: What each kernel has to show: the model's own tests, and servers that come,
#: go and are healed.
KERNEL = (
    'tests.functional.resctrl.test_host',
    'tests.unit.host.test_with_resctrl',
    'tests.unit.host.test_with_resctrl_caches',
    'tests.unit.host.test_with_resctrl_others',
    'tests.unit.host.test_with_resctrl_shapes',
    'tests.unit.host.test_with_resctrl_trial',
    'tests.unit.host.test_manager_floating',
    'tests.unit.testing.test_resctrl',
)

#: The same operations in many more orders, each of which fails once or is the
#: last one. The comparison shows on each kernel that they are the same; two
#: thirds of the time goes here, so that one kernel has to do.
PACKAGE = (
    'tests.unit.host.test_with_resctrl_killed',
    'tests.unit.host.test_with_resctrl_pools',
)

#: Servers with shares of each kind that a machine has.
SHAPES = (
    'tests.functional.resctrl.test_host',
    'tests.unit.host.test_with_resctrl_shapes',
)

#: Servers with ways of each cache that a machine has.
CACHES = (*SHAPES, 'tests.unit.host.test_with_resctrl_caches')

#: An unprivileged nova-compute.
USER = ('tests.kernel.test_nova',)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one guest does.

    :ivar series: of the kernel, like 6.12
    :ivar machine: of :data:`.machines.MACHINES`
    :ivar is_user: whether an unprivileged nova-compute is tried as well
    :ivar is_asked: whether the kernel is compared with the model
    """

    series: str
    machine: str = 'skylake2'
    tests: tuple[str, ...] = ()
    is_user: bool = False
    is_asked: bool = False

    def list_tests(self) -> tuple[str, ...]:
        """Return the names of its modules, classes and tests."""
        return (*(USER if self.is_user else ()), *self.tests)


JOBS = (
    # The longest first: they run beside each other.
    Job(series='6.12', tests=(*KERNEL, *PACKAGE), is_user=True, is_asked=True),
    Job(series='6.1', tests=KERNEL, is_user=True, is_asked=True),
    # AMD, with 16 caches and masks that have gaps.
    Job(series='6.12', machine='epyc16', tests=SHAPES),
    # Sub-NUMA clusters: two nodes for each cache.
    Job(series='6.12', machine='icelake_snc', tests=SHAPES),
    # Ways of L2 and of L3, masks that have gaps.
    Job(series='6.12', machine='granite', tests=CACHES),
    # L2 alone, which two cores share.
    Job(series='6.12', machine='atom_l2', tests=CACHES),
)
