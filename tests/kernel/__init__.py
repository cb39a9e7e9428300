# SPDX-License-Identifier: Apache-2.0

"""The tests of resctrl over the kernel of this machine.

They run in the guests of ``dev/kernel``, and nowhere else: they unmount,
empty and fill ``/sys/fs/resctrl`` as they like.

* ``fixture``: stands for the model's, and shows the kernel
* ``behind``: what tests do behind the scenes
* ``mount``, ``tasks``, ``counters``, ``cpus``: the parts of that
* ``faulty``: file operations that fail on demand
* ``run``: runs tests, and says what came of each
* ``operations``: what the kernel and the model are both asked
* ``ask``: asks one of them
* ``site``: a host as a deployer sets it up
* ``nova``: a host in the hands of an unprivileged nova-compute
* ``test_nova``: what it does there
"""
