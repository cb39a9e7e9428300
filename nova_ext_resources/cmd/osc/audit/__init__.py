# SPDX-License-Identifier: Apache-2.0

"""``openstack extended resource audit``.

* ``audit``: ``extended resource audit``
* ``journal``: what the audit changes, before and after
* ``repair``: deletes the leftovers that the audit has found
* ``sources``: what the audit compares
"""
