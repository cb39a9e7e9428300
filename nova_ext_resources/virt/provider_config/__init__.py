# SPDX-License-Identifier: Apache-2.0

"""Nova's own providers of a host, beside those of plugins.

* ``collisions``: keeps from Nova what its files must not add to a provider, or
  could not
* ``files``: Nova's files of inventory that collide with plugins
* ``nova_tree``: Nova's copy of what placement has of the host's providers
* ``old_inventory``: moves what the compute node itself has to its children
* ``reshape_errors``: why placement refused a reshape of Nova's
"""
