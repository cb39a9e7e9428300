# SPDX-License-Identifier: Apache-2.0

"""Benchmarks, each beside its peers and with its goals: ``tox -e bench``.

* ``allocator``: the allocator of cache ways, beside first and best fit
* ``ledger``: a server's coming and going, and a restart of a full host
* ``lifecycle``: boots and resizes, on Nova alone and with this package
* ``monitoring``: one sweep over a full host, and what the agent takes
* ``numa_choice``: how many boots are saved when Nova pins near the ways
* ``publish``: publishing the providers of a host, beside Nova's own client
* ``reservation``: reservations in a booked cloud, beside Blazar
* ``scale``: a thousand hosts that publish to one placement
* ``scheduler``: filter and weigher beside Nova's own, over ten thousand hosts
* ``threads``: how long it takes to have all threads of a server in its group
* ``trace``: how far one change of the kernel's groups travels in the code
* ``tuning``: fine tuning beside even division, over simulated servers

``harness`` has what several of them use.
"""
