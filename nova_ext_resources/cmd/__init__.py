# SPDX-License-Identifier: Apache-2.0

"""The programs that an installation brings.

* ``agent``: ``nova-ext-resources-agent``: publishes a host whose nova-compute
  knows nothing of this package
* ``checks``: what ``status`` checks
* ``compute``: ``nova-compute-ext``: nova-compute from a develop install
* ``compute_node``: the compute node of a host, from where Nova keeps its uuid
* ``configuration``: the options of nova-compute, as these programs read them
* ``diff``: what ``status`` compares with placement
* ``downgrade_ledger``: changes a ledger back for an older release; run it with
  ``python3 -m``
* ``hand_over``: ``nova-ext-resources-hand-over``: from one backend to another
* ``log``: the log of a program that must not end by it
* ``old_inventory``: what the compute node itself has of what plugins report
* ``osc``: ``openstack extended ...``
* ``provider_config``: ``nova-ext-resources-provider-config``: what plugins
  find on a host, as a file that Nova reads
* ``reservations``: ``nova-ext-resources-reservations``: the manager of
  reservations
* ``status``: ``nova-ext-resources-status``: would nova-compute start, and what
  would it offer
"""

import warnings

# Not of ours: oslo.privsep and futurist import eventlet where it is installed.
warnings.filterwarnings('ignore', message=r'\s*Eventlet is deprecated')
