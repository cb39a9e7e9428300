# SPDX-License-Identifier: Apache-2.0

"""Small real clouds on one machine, for the demo, the gate and tests.

Everything listens on loopback, lives in one temporary folder and ends with
the process that started it.

* ``base``: what every cloud does, and all that runs in processes
* ``child``: one process of a cloud, as its parent sees it
* ``commands``: the ``openstack`` command line
* ``ending``: ends a service's process when its main function fails
* ``endpoints``: free ports, taken before anything starts
* ``errors``: what keeps a cloud from running
* ``extended``: options of a Nova with extended resources
* ``folder``: the one folder that everything of a cloud lives in
* ``full``: each service a process, with keystone, MariaDB and RabbitMQ
* ``guard``: runs a process that cannot outlive its parent
* ``journal``: reads the log of Nova's services
* ``ledger``: reads the ledger of a host
* ``lite``: placement, Nova and its computes in one process, without keystone
* ``machines``: the simulated machines of the compute hosts
* ``mounts``: removes a folder in which something may still be mounted
* ``network``: an empty network service
* ``options``: configuration that all clouds have in common
* ``programs``: the programs that are installed
* ``reservations``: the commands and the manager of reservations
* ``sdk``: clients of the public APIs
* ``servers``: deletes, waits for and looks at servers
* ``serving``: serves a WSGI application on an inherited socket
* ``settings``: what a caller may choose about a cloud
* ``site``: a cloud that servers are booted in
* ``told``: what a story says, and the error when it is not so
* ``tree``: what placement knows of the hosts
* ``waiting``: waits for something to become so
"""
