# SPDX-License-Identifier: Apache-2.0

"""A small real OpenStack on one machine, for the demo and for tests.

Everything listens on loopback, lives in one temporary folder and ends with
the process that started it:

* :mod:`demo.cloud.control` is one process with placement, nova-api, the
  conductor, the scheduler, the computes and an empty network service;
* :mod:`demo.cloud.image` is glance.

:class:`demo.cloud.cloud.Cloud` starts and stops them.
"""
