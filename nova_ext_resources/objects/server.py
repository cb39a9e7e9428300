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

"""What Nova says of a server, for those who look at metrics."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ServerInfo:
    """Of whom a server is, and of what kind.

    :ivar flavor: the flavor's name, '' when it is not known
    :ivar project_id: the project, '' when it is not known
    """

    flavor: str = ''
    project_id: str = ''
