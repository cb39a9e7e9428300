# SPDX-License-Identifier: Apache-2.0

"""A simulator of RMD v0.3.1, with a simulated host below it.

It answers as the daemon does where a client can see it, mistakes
included. It keeps no pretence of hardware: control groups are values that
can be looked at, and that other software can be made to take.

``python -m nova_ext_resources.testing.rmd_simulator`` starts one;
:class:`RmdSimulatorFixture` starts one inside a test.

The files:

* ``access``: what RMD allows in its normal mode
* ``allocation``: which ways a workload gets
* ``binding``: fills the fields of a request as Go fills a struct
* ``classes``: RMD's list of classes of service
* ``cli``: the command line
* ``control``: the simulator's own paths below ``/-/``
* ``cores``: lists of cores as RMD reads them
* ``daemon``: the records, and what requests do to them
* ``enforcement``: applies workloads: ways, cores, tasks, bandwidth
* ``faults``: faults on demand
* ``fixture``: a simulated RMD for the time of a test
* ``gojson``: JSON as Go's encoding/json reads and writes it
* ``masks``: masks of ways and lists of CPUs
* ``messages``: requests and responses, apart from sockets
* ``pages``: the pages that only report
* ``patching``: how PATCH merges a body into a record
* ``resctrl``: the control groups of the simulated kernel
* ``routes``: RMD's paths and their handlers
* ``server``: HTTP as Go's server speaks it
* ``settings``: the simulated host and its rmd.toml
* ``simulator``: a simulated RMD that listens on a port
* ``validation``: what RMD checks before it takes a workload
* ``workload``: the record of a workload
"""

from nova_ext_resources.testing.rmd_simulator import fixture
from nova_ext_resources.testing.rmd_simulator import settings
from nova_ext_resources.testing.rmd_simulator import simulator

RmdSimulatorFixture = fixture.RmdSimulatorFixture
Settings = settings.Settings
Simulator = simulator.Simulator

__all__ = ('RmdSimulatorFixture', 'Settings', 'Simulator')
