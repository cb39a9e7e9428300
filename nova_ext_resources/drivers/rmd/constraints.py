# SPDX-License-Identifier: Apache-2.0

"""What RMD can never do, whatever its state. Pure.

RMD decides by two numbers which pool a workload is of, has them and one
limit of memory bandwidth for all caches of a workload, and limits bandwidth
beside guaranteed ways only.
"""

from collections.abc import Mapping

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.rmd import workload
from nova_ext_resources.objects import host_constraints

_WAYS = frozenset(workload.WAY_CLASSES)

#: All servers of the shared pool are one workload, which has one P-state.
_PSTATES = frozenset({'rmd:pstate_monitoring', 'rmd:pstate_ratio'})

_BANDWIDTH = host_constraints.ClassConstraints(
    needs_beside=frozenset({classes.WAYS}),
    is_uniform=True,
    # RMD does not report whether the threads of a core have a limit each.
    needs_cores=True,
)

CONSTRAINTS: Mapping[str, host_constraints.ClassConstraints] = {
    classes.CLOS: host_constraints.ClassConstraints(needs=_WAYS),
    classes.WAYS: host_constraints.ClassConstraints(
        attributes={'pool': 0},
        excludes=_WAYS - {classes.WAYS},
        is_uniform=True,
    ),
    # With a maximum that equals its minimum, RMD would take guaranteed ways.
    classes.BURST: host_constraints.ClassConstraints(
        attributes={'max': 1},
        excludes=_WAYS - {classes.BURST},
        is_uniform=True,
    ),
    classes.SHARED: host_constraints.ClassConstraints(
        excludes=(_WAYS - {classes.SHARED}) | _PSTATES
    ),
    classes.PERCENT: _BANDWIDTH,
    classes.MBPS: _BANDWIDTH,
}
