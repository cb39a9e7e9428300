# SPDX-License-Identifier: Apache-2.0

"""Commands of the OpenStackClient: ``openstack extended ...``.

* ``audit``: ``extended resource audit``
* ``cloud``: commands that read placement and Nova as the client's user
* ``config_files``: the arguments that name configuration files of Nova
* ``nova``: what Nova says of servers
* ``plugin``: what the client loads at each start, whatever it is asked
* ``render``: hosts and charts as text and pictures; pure
* ``reservation``: ``extended reservation ...``
* ``resource``: ``extended resource ...``
"""
