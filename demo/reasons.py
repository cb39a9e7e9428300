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

"""Why hosts said no, from the log of Nova's services."""

from demo import scene as scenes
from demo import stage as stages

#: Loggers of this package inside Nova's services.
_LOGGER = 'nova_ext_resources'


def show(scene: scenes.Scene, mark: int, *, host: str = '') -> None:
    """Print what this package logged since ``mark``.

    :param host: only lines that name this host
    :raises NotAsTold: nothing was said
    """
    said = dict.fromkeys(
        line.message
        for line in scene.journal.since(mark, _LOGGER, host)
        if line.logger.startswith(_LOGGER)
    )
    stages.expect(
        bool(said),
        f'a refusal of {host or "the hosts"} has a reason in the log',
    )
    scene.stage.table('The reasons', ('from the log',), [[m] for m in said])
