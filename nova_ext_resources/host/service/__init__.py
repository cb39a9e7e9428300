# SPDX-License-Identifier: Apache-2.0

"""Starts, runs and stops what a host needs.

Every loop has a thread of its own, which goes on after an error; one that
escapes its round becomes an alarm.

* ``agent``: a host whose nova-compute is not ours, discovered and published
* ``health``: collects alarms and last successes of all parts while they run
* ``loading``: makes a host from options: its plugins and its ledger
* ``metrics``: offers metrics, health and measurements of a host
* ``paths``: where a host's files are that no option names
* ``periodic``: the host's loop: discover, audit and repair, observe, publish;
  asks Nova now and then which servers are here
* ``publication_source``: what the publisher reads of a host
* ``server_names``: names of Nova's servers for metrics; never decides a
  release
* ``telemetry``: runs monitoring and tuning
* ``wiring``: puts all of it together; starts and stops it
"""
