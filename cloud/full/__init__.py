# SPDX-License-Identifier: Apache-2.0

"""A cloud as operators have it: each service a process, and keystone.

The programs are those that are installed beside this Python, and MariaDB and
RabbitMQ are the distribution's. :class:`.cloud.Cloud` starts and stops it.

* ``bus``: RabbitMQ
* ``catalog``: users, roles and endpoints in keystone
* ``cloud``: starts, restarts and stops the services
* ``config``: writes every configuration file
* ``database``: MariaDB
* ``schemas``: makes the tables of all services
* ``services``: one process for each service
"""
