# SPDX-License-Identifier: Apache-2.0

"""What Nova reports of a server, for alarms and labels of metrics."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NovaServer:
    """The name, the owner and the flavor of a server.

    :ivar name: '' when it is not known
    :ivar flavor: the flavor's name, '' when it is not known
    :ivar project_id: the project, '' when it is not known
    """

    name: str = ''
    flavor: str = ''
    project_id: str = ''
