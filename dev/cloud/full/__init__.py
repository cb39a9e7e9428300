# SPDX-License-Identifier: Apache-2.0

"""A cloud as operators have it: each service a process, and keystone.

The programs are those that are installed beside this Python, and MariaDB and
RabbitMQ are the distribution's. :class:`.cloud.Cloud` starts and stops it.

* ``blazar``: Blazar beside the cloud, in an environment of its own
* ``bus``: RabbitMQ
* ``catalog``: users, roles and endpoints in keystone
* ``cloud``: starts, restarts and stops the services
* ``config``: writes every configuration file
* ``database``: MariaDB
* ``rest``: an API of JSON, asked as one user
* ``schemas``: makes the tables of all services
* ``services``: one process for each service
* ``tenant``: an ordinary user, who is a member of a project
"""
