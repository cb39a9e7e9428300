# SPDX-License-Identifier: Apache-2.0

"""The REST client of RMD.

* ``client``: the only place that knows RMD's paths
* ``decode``: RMD's JSON as values
* ``difference``: what two readings of the cache pages differ in
* ``errors``: what the client raises, and text of RMD fit for logs
* ``losses``: classes of service that an RMD has lost
* ``odds``: how often RMD writes a mask to the right one of several caches
* ``pending_changes``: changes that RMD may still carry out after a time-out
* ``removal``: removes workloads, and notices what is kept of them
* ``request``: a workload as it is requested, checked before it is sent
* ``response``: a response of RMD, and the error that it stands for
* ``tls``: sessions that authenticate both sides
* ``transport``: requests bounded in time and size
* ``values``: what RMD reports, as values
* ``verify``: creates a workload and checks which ways it really got
* ``writer_lock``: one writer per RMD
"""
