# SPDX-License-Identifier: Apache-2.0

"""The life of servers on a cloud of separate services: ``tox -e gate``.

Keystone, placement, glance, Nova, MariaDB and RabbitMQ are real, each in
processes of its own; guests are not, and machines are simulated. Everything is
done with the ``openstack`` command and openstacksdk. After each scenario
Nova, ledgers, placement and machines must agree.

* ``audit``: compares what Nova, ledgers, placement and machines say
* ``differences``: what does not agree
* ``driver``: what hosts run without the package
* ``gate``: the command: plays the scenarios, and reports
* ``leasing``: a site with Blazar, and two users who have a project each
* ``package``: builds, installs and removes wheels
* ``plan``: which scenarios are played, and the short form
* ``pool``: clients that work side by side
* ``refused``: servers for which there is no room, or no right
* ``reserving``: a site whose nova-scheduler keeps what is reserved
* ``scenarios``: one module for each
* ``site``: the cloud with its machines, images and flavors
"""
