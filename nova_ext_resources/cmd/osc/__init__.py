# SPDX-License-Identifier: Apache-2.0

"""Commands of the OpenStackClient: ``openstack extended ...``.

* ``audit``: ``extended resource audit``
* ``audit_journal``: what the audit changes, before and after
* ``audit_reading``: what the audit compares
* ``audit_repair``: deletes the leftovers that the audit has found
* ``calendar``: ``extended reservation calendar``
* ``capacity``: ``extended reservation capacity``
* ``capacity_change``: ``extended reservation capacity change create, list,
  show, delete``
* ``cloud``: commands that read placement and Nova as the client's user
* ``columns``: reservations as rows and fields
* ``config_files``: the arguments that name configuration files of Nova
* ``definition``: ``extended resource definition list, show``
* ``definition_diff``: ``extended resource definition diff``
* ``explain``: ``extended resource explain``
* ``host``: ``extended resource host list, show``
* ``limit``: ``extended reservation limit set, list, delete``
* ``migrate``: ``extended resource migrate``
* ``migrate_back``: moves classes of a host back to its compute node
* ``nova``: what Nova says of servers
* ``picture``: a host in the letters of a terminal
* ``plugin``: what the client loads at each start, whatever it is asked
* ``pool``: ``extended resource pool list``
* ``published``: what hosts have published, from the database
* ``quota``: ``extended reservation quota set, list, delete``
* ``recorded``: what Nova has recorded of a server that did not start or move
* ``reservation``: ``extended reservation create, list, show, update, cancel``
* ``simulate``: ``extended resource simulate``
* ``store``: commands that work on the store of reservations
* ``subscription``: ``extended reservation subscription create, list, show,
  delete``
* ``svg``: a chart as a picture
* ``text``: a chart in the letters of a terminal
* ``usage``: ``extended resource usage show``
* ``wanted``: the arguments that name a flavor and hosts
* ``window``: the arguments that name a time
"""
