# SPDX-License-Identifier: Apache-2.0

"""The smallest cloud: two processes, SQLite, no keystone, no message bus.

:class:`.cloud.Cloud` starts and stops it.

* ``cloud``: starts and stops the processes
* ``config``: writes every configuration file
* ``control``: placement, nova-api, the conductor, the scheduler, the computes
  and what stands in for keystone and the network service, in one process
* ``fakeauth``: a filter in the place of keystone's
* ``identity``: an identity service in the place of keystone
* ``image``: glance
* ``sqlite``: lets many threads share SQLite files
"""
