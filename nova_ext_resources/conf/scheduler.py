# Licensed under the Apache License, Version 2.0 (the "License"); you may
# not use this file except in compliance with the License. You may obtain
# a copy of the License at
#
#      http://www.apache.org/licenses/LICENSE-2.0
#
# Unless required by applicable law or agreed to in writing, software
# distributed under the License is distributed on an "AS IS" BASIS, WITHOUT
# WARRANTIES OR CONDITIONS OF ANY KIND, either express or implied. See the
# License for the specific language governing permissions and limitations
# under the License.

"""Options of the scheduler, group ``[ext_resources_scheduler]``."""

from oslo_config import cfg
from oslo_config import types

GROUP = cfg.OptGroup(
    'ext_resources_scheduler',
    title='Extended resources in the scheduler',
    help='How nova-scheduler chooses among hosts that have enough.',
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

An aggregate overrides it for its hosts with metadata of the same name.

Possible values:

* a positive number: the higher, the more this weigher decides
* 0: it decides nothing
* a negative number: the opposite of what it would choose
""",
    ),
    cfg.Opt(
        'weigh_policies',
        type=types.Dict(types.String(choices=[SPREAD, PACK])),
        default={},
        metavar='CLASS:POLICY',
        help="""
Whether servers that ask for a resource class are spread or packed.

``spread`` prefers the host where the larger share of the class is free,
``pack`` the one where the smaller share is. A server that asks for several
classes goes by the average of them. A class that is not named is spread.

Possible values: resource classes, or ``*`` for all that are not named, each
with ``spread`` or ``pack``, such as
``CUSTOM_LLC_WAYS:pack,CUSTOM_MEMORY_BANDWIDTH_PERCENT:spread``.
""",
    ),
    cfg.ListOpt(
        'scarce_classes',
        default=[ANY],
        help="""
Resource classes whose hosts are kept free of servers that do not ask.

A server that does not ask for such a class goes to a host that has none of
it, or little of it left, if other weighers agree.

Possible values:

* ``*``: every class that a host publishes through this package, for servers
  that ask for none of them
* names of resource classes, for all servers that do not ask for these
* nothing: such servers are not steered at all
""",
    ),
)


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Declare them on ``conf``; doing so again changes nothing."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Give them to oslo-config-generator."""
    return [(GROUP, list(OPTS))]
