# SPDX-License-Identifier: Apache-2.0

"""Any resource of a compute host as a first-class resource of Nova.

* ``claims``: decides whether and how a server fits; pure, without Nova
* ``clocks``: the time of day, and seconds that no step of it changes
* ``cmd``: the programs that an installation brings
* ``conf``: every option, a module per group
* ``debounce``: what was seen for long enough, or often enough, to be believed
* ``drivers``: a folder per kind of resource: what finds it, what enforces it
* ``exception``: the tree of errors, and the sentences that users read
* ``facts``: what Nova and the hypervisor say of servers, as values
* ``host``: runs in nova-compute: claims, ledger, enforcement, audit, repair
* ``inspection``: what operators see of a cloud, and why a server fits or not
* ``log_on_change``: what was logged, so that it is logged when it is new
* ``monitoring``: measures running servers; metrics for Prometheus
* ``objects``: the values that the rooms exchange, all frozen
* ``opts``: all options of the package and its plugins, for the generator
* ``placement``: talks to placement and keeps the provider tree there current
* ``plugins``: loads plugins from entry points (``setup.cfg``), strictly
* ``reservation``: plans capacity for a future interval, and stores it
* ``scheduler``: adapters for Nova's scheduler and API
* ``testing``: models of the kernel and of RMD, for tests and demonstrations
* ``tuning``: moves units between running servers by what is measured
* ``virt``: adapters for Nova's virt drivers
* ``worker``: a thread that runs rounds, which all other threads derive from
"""
