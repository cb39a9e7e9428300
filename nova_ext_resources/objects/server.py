# SPDX-License-Identifier: Apache-2.0

"""What Nova reports of a server, for labels of metrics."""

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NovaServer:
    """The owner and the flavor of a server.

    :ivar flavor: the flavor's name, '' when it is not known
    :ivar project_id: the project, '' when it is not known
    """

    flavor: str = ''
    project_id: str = ''
