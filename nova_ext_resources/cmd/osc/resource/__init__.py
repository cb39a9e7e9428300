# SPDX-License-Identifier: Apache-2.0

"""``openstack extended resource ...``, but for ``audit``.

* ``definition``: ``extended resource definition list, show``
* ``definition_diff``: ``extended resource definition diff``
* ``explain``: ``extended resource explain``
* ``host``: ``extended resource host list, show``
* ``migrate``: ``extended resource migrate``
* ``pool``: ``extended resource pool list``
* ``request_arguments``: the arguments that name a flavor and hosts
* ``server_events``: what Nova has recorded of a server that did not start or
  move
* ``simulate``: ``extended resource simulate``
* ``usage``: ``extended resource usage show``
"""
