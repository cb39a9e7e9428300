# SPDX-License-Identifier: Apache-2.0

"""From what plugins discover to the providers of this host.

* A plugin that fails keeps its last report; it never reports zero.
* A device that vanishes while a server holds it stays in the total. Once that
  server has gone, it is reserved until an operator deletes its file.

* ``config_files``: entries of Nova's provider configuration files that name a
  provider of this host
* ``discovery``: runs the inventory providers; a failed one's report stays
* ``node_traits``: which traits Nova adds to its compute node; pure
* ``old_inventory``: what the compute node itself offers of what is below it
* ``preview``: the tree that a start would publish; pure
* ``provider_config``: what plugins find, as a file that Nova reads; pure
* ``quarantine``: keeps from servers what vanished while a server held it
* ``view``: from discovered resources and entries to the view and the tree
"""
