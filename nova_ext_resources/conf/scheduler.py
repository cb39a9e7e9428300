# SPDX-License-Identifier: Apache-2.0

"""Options of the scheduler, group ``[ext_resources_scheduler]``."""

import functools

from oslo_config import cfg
from oslo_config import types

from nova_ext_resources import conf

GROUP = cfg.OptGroup(
    'ext_resources_scheduler',
    title='Extended resources in the scheduler',
    help='How nova-scheduler chooses among hosts with enough resources.',
)

#: Stands for every resource class.
ANY = '*'

SPREAD = 'spread'
PACK = 'pack'

OPTS = (
    cfg.FloatOpt(
        'ext_resources_weight_multiplier',
        default=1.0,
        help="""
How much ExtendedResourcesWeigher counts beside the other weighers.

An aggregate overrides the option for its hosts with metadata of the same name.

Possible values:

* a positive number: the higher, the more this weigher counts
* 0: this weigher has no effect
* a negative number: this weigher prefers the hosts that it would avoid
""",
    ),
    cfg.FloatOpt(
        'reservation_weight_multiplier',
        default=1.0,
        help="""
How much ReservationWeigher counts beside the other weighers.

The weigher prefers hosts with the shortest unused time between the end of the
server and the next promise to a reservation. An aggregate overrides the option
for its hosts with metadata of the same name.

Possible values:

* a positive number: the higher, the more this weigher counts
* 0: this weigher has no effect
* a negative number: this weigher prefers the hosts that it would avoid
""",
    ),
    cfg.Opt(
        'weigh_policies',
        type=types.Dict(types.String(choices=[SPREAD, PACK])),
        default={},
        metavar='CLASS:POLICY',
        help="""
Whether servers that request a resource class are spread or packed.

``spread`` prefers the host with the larger free share of the class, ``pack``
the host with the smaller one. For a server that requests several classes, the
average counts. Classes that are not listed are spread.

Possible values: resource classes, or ``*`` for all that are not listed, each
with ``spread`` or ``pack``, such as
``CUSTOM_LLC_WAYS:pack,CUSTOM_MEMORY_BANDWIDTH_PERCENT:spread``.
""",
    ),
    cfg.ListOpt(
        'scarce_classes',
        default=[ANY],
        help="""
Resource classes whose hosts are kept for servers that request them.

A server that does not request such a class prefers hosts that have no units,
or few free units, of the class.

Possible values:

* ``*``: every class that a host publishes through this package, for servers
  that request none of them
* names of resource classes, for all servers that do not request these
* nothing: no hosts are kept
""",
    ),
)

register_opts = functools.partial(conf.register, GROUP, OPTS)
