# SPDX-License-Identifier: Apache-2.0

"""``openstack extended reservation ...``.

* ``calendar``: ``extended reservation calendar``
* ``capacity``: ``extended reservation capacity``
* ``capacity_change``: ``extended reservation capacity change create, list,
  show, delete``
* ``columns``: reservations as rows and fields
* ``limit``: ``extended reservation limit set, list, delete``
* ``published_hosts``: what hosts have published, from the database
* ``quota``: ``extended reservation quota set, list, delete``
* ``reservation``: ``extended reservation create, list, show, update, cancel``
* ``store``: commands that work on the store of reservations
* ``subscription``: ``extended reservation subscription create, list, show,
  delete``
* ``window_arguments``: the arguments that name a time
"""
