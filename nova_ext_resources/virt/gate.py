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

"""Which Novas this package was tested with; asked before anything else.

Everything here and in ``scheduler/`` leans on Nova's internals, which come
without a promise (Nova's contributor policies, "Out Of Tree Support").
"""

from nova import version
from oslo_log import log as logging

from nova_ext_resources import exception

LOG = logging.getLogger(__name__)

#: Major versions that the functional tests run against.
TESTED = (34,)


def check_nova() -> None:
    """Refuse a Nova that lacks what is needed; warn of an untested one.

    :raises InvalidConfiguration: it is older than all that were tested
    """
    found = version.version_string()
    major = int(found.split('.', 1)[0])
    if major < min(TESTED):
        raise exception.InvalidConfiguration(
            option='[DEFAULT] compute_driver',
            value='ext_resources.*',
            reason=f'it needs Nova {min(TESTED)} or newer, this is {found}',
        )
    if major > max(TESTED):
        LOG.warning(
            'nova-ext-resources was tested with Nova %(tested)s, this is '
            '%(found)s: try a server with extended resources before this '
            'host takes others',
            {'tested': ', '.join(map(str, TESTED)), 'found': found},
        )
