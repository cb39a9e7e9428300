# SPDX-License-Identifier: Apache-2.0

"""A base for tests of hosts whose RMD carries out requests too late."""

from typing import Any

from nova_ext_resources import plugins as plugins_mod
from tests.unit.drivers.rmd.api import late
from tests.unit.host import with_host


class LateRmdTestCase(with_host.RmdHostTestCase):
    """``late`` is of the enforcer that was loaded last."""

    late: late.LateRequests

    def load_rmd(self, namespace: str, **options: Any) -> dict[str, Any]:
        plugins = super().load_rmd(namespace, **options)
        if namespace == plugins_mod.ENFORCERS:
            self.late = late.LateRequests(plugins['rmd']._client)
        return plugins
