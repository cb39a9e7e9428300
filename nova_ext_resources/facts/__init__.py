# SPDX-License-Identifier: Apache-2.0

"""What Nova and the hypervisor say of servers, as values. Frozen, without I/O.

* ``consumer_role``: what a consumer is to a host, as Nova knows it
* ``deletion_evidence``: what Nova and the hypervisor say of a server that may
  be gone
* ``guest``: what the hypervisor reports of a server that runs
* ``operation``: what Nova does with a server, as seen by one host
* ``server``: what Nova reports of a server
"""
