# SPDX-License-Identifier: Apache-2.0

"""Reads what a host is, besides its control groups."""

import dataclasses

from oslo_config import cfg

from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.kernel import schemata
from nova_ext_resources.drivers.resctrl.kernel import topology
from nova_ext_resources.drivers.resctrl.policy import ownership


def make(options: cfg.ConfigOpts.GroupAttr, host: str) -> ownership.Machine:
    """Return what the options say; the CPUs are not known yet."""
    return ownership.Machine(
        host=host,
        reserved_ways=options.reserved_ways,
        burst_ways=options.burst_ways,
        shared_ways=options.shared_ways,
        memory_bandwidth=options.memory_bandwidth,
    )


def read_cpus(
    machine: ownership.Machine, cpu_path: str, tree: groups.Tree
) -> ownership.Machine:
    """Return it with the CPUs of each cache; they change with CPUs offline.

    :raises ResctrlError: they cannot be read
    """
    # Memory bandwidth belongs to a last-level cache, controlled or not.
    levels = {schemata.LAST_LEVEL, *tree.info.levels}
    return dataclasses.replace(
        machine,
        cpus=topology.read_known(cpu_path, levels),
        online=topology.read_online(cpu_path),
    )
