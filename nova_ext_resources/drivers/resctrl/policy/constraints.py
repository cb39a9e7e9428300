# SPDX-License-Identifier: Apache-2.0

"""What a host can never do with a flavor, whatever is free. Pure.

A server is in one control group: it has one class of service, and one mask
for each cache. Claims are decided by this.
"""

from collections.abc import Mapping

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.objects import host_constraints

_OWN = frozenset(
    {classes.WAYS, classes.L2_WAYS, classes.BURST, *classes.BANDWIDTHS}
)

#: The servers of the shared pool have one class of service together.
_NOT_SHARED = frozenset({classes.SHARED})

CONSTRAINTS: Mapping[str, host_constraints.ClassConstraints] = {
    **dict.fromkeys(
        _OWN, host_constraints.ClassConstraints(excludes=_NOT_SHARED)
    ),
    classes.SHARED: host_constraints.ClassConstraints(excludes=_OWN),
    classes.WAYS: host_constraints.ClassConstraints(
        excludes=_NOT_SHARED, excludes_beside=frozenset({classes.BURST})
    ),
    classes.BURST: host_constraints.ClassConstraints(
        excludes=_NOT_SHARED, excludes_beside=frozenset({classes.WAYS})
    ),
}

#: Where the threads of a core share one limit.
WHOLE_CORES: Mapping[str, host_constraints.ClassConstraints] = dict.fromkeys(
    classes.BANDWIDTHS, host_constraints.ClassConstraints(needs_cores=True)
)


def make_code_constraints(
    least: Mapping[str, int | None],
) -> dict[str, host_constraints.ClassConstraints]:
    """Return which requests can have ways for code alone.

    :param least: class of ways -> the fewest ways that code, or data, can
        have; None where the kernel has no code/data prioritization (CDP)
    """
    return {
        name: host_constraints.ClassConstraints(
            attributes={'pool': 0, **({} if ways is None else {'code': ways})}
        )
        for name, ways in least.items()
    }
