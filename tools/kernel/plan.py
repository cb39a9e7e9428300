# SPDX-License-Identifier: Apache-2.0

"""Which tests run on which kernel, and on which machine."""

import dataclasses

#: The model's own tests, file by file, as the kernel answers them.
FILES = ('tests.unit.testing.test_resctrl',)

#: What Nova's host does with resctrl: servers that come, go and are healed.
HOST = (
    'tests.functional.resctrl.test_host',
    'tests.unit.host.test_with_resctrl',
    'tests.unit.host.test_with_resctrl_caches',
    'tests.unit.host.test_with_resctrl_killed',
    'tests.unit.host.test_with_resctrl_pools',
    'tests.unit.host.test_with_resctrl_shapes',
    'tests.unit.host.test_with_resctrl_trial',
    'tests.unit.host.test_resources_floating',
)

#: Servers with shares of each kind that a machine has.
SHAPES = (
    'tests.functional.resctrl.test_host',
    'tests.unit.host.test_with_resctrl_shapes',
)

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


def _whole(series: str) -> Job:
    return Job(
        series=series, tests=(*HOST, *FILES), is_user=True, is_asked=True
    )


JOBS = (
    _whole('6.1'),
    _whole('6.12'),
    # AMD, with 16 caches and masks that have gaps.
    Job(series='6.12', machine='epyc16', tests=SHAPES),
)
