# SPDX-License-Identifier: Apache-2.0

"""The main job on one machine: real Nova, real placement, simulated hardware.

Run it with ``python -m dev.demo``.

* ``cli``: the command line: starts the cloud, plays the story, stops
* ``story``: the acts, each a module
* ``scene``: what the acts share; ``stage``: what is printed
* ``ballast``: has the scheduler prefer one host, by ordinary means
* ``guest``: a stand-in for the QEMU of a server
* ``hearing``: waits until the scheduler knows what hosts have published
* ``holdings``: who holds what: ledger, placement and what is applied
* ``kernel``: groups, masks, CPUs and threads that the kernel of a host shows
* ``landed``: the table of servers, their hosts and what each got
* ``reasons``: why hosts refused, from the log of Nova's services
"""
