# SPDX-License-Identifier: Apache-2.0

"""The plugin of Blazar: reservations of leases, kept in our store.

Blazar keeps leases: who has one, from when to when. What is promised is in
the store alone, and is judged by the clock. So nothing depends on Blazar's
events: not on their second, nor on whether they come at all. Of the package
only this folder imports Blazar, and nothing else imports this folder.

* ``asking``: what all requests of the API extension have in common
* ``body``: what a request must be before Blazar reads it
* ``documents``: answers as JSON
* ``errors``: errors that Blazar passes on as they are
* ``flag``: yes or no, as callers of the API write it
* ``front``: what the API extension asks of the plugin
* ``keeper``: the reservations, open for all threads of a process
* ``monitor``: keeps leases and reservations the same
* ``options``: the options of ``[extended:instance]``
* ``orders``: what a lease asks for, as an order
* ``plugin``: the plugin ``extended.instance.plugin`` itself
* ``policies``: who may do what by the API extension
* ``quoting``: what the extension asks about quotas and limits
* ``repair``: what is wrong with a lease, and what sets it right
* ``rest``: the extension ``/v1/extended`` of Blazar's API
* ``rest_quotas``: its requests for quotas and limits
* ``rows``: the leases in Blazar's database
* ``subscribing``: what the extension asks about subscriptions
* ``words``: words that the query of a request may have
"""
