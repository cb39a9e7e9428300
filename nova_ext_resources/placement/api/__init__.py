# SPDX-License-Identifier: Apache-2.0

"""One method per endpoint of the Placement API, and its errors.

A request is bounded in time. What may be repeated is ``Retriable``; a conflict
of generations is repeated only by who has read the generation.

* ``adapter``: makes an adapter of keystoneauth of the options
* ``bulk_inventories``: writes the inventories of many providers by one request
* ``consumers``: its methods of what consumers hold
* ``endpoint``: one request and its response, or its error
* ``placement_client``: one method per endpoint of the Placement API
* ``responses``: placement's JSON as values, and allocations as JSON
* ``retry``: how a call to placement is repeated
"""
