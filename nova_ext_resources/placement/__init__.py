# SPDX-License-Identifier: Apache-2.0

"""Talks to placement and keeps the provider tree there current.

* ``adapter``: makes an adapter of keystoneauth of the options
* ``allocations``: changes what a server holds in placement
* ``bare_metal``: publishes below Nova's compute nodes of ironic
* ``bodies``: allocations as the JSON that placement takes
* ``bulk``: writes the inventories of many providers by one request
* ``changes``: the writes to one provider as values, and their order; pure
* ``client``: one method per endpoint of the Placement API
* ``consumers``: its methods of what consumers hold
* ``endpoint``: one request and its response
* ``errors``: from a failed request to an error of ours, ``Retriable`` or not
* ``fields``: writes traits, aggregates or inventories of a provider
* ``memory``: what placement last had of a host's providers, in a file
* ``overview``: reads all hosts of a cloud, by few requests
* ``pool_sweep``: deletes the sharing providers that no host reaches
* ``pool_target``: what placement shall have of a shared pool; pure
* ``pools``: writes the sharing providers of pools, beside other hosts
* ``publisher``: the thread that keeps a host's tree current
* ``responses``: placement's JSON as values
* ``retry``: how a call to placement is repeated
* ``root``: which classes a compute node itself offers
* ``seen``: reads of the tree what has changed, and remembers the rest
* ``sync``: what of the tree is written, deleted, or kept while held; pure
* ``target``: what a provider shall be, given what placement has of it; pure
* ``tree``: writes what of the tree differs
* ``wording``: what would be written, in words; pure
"""
