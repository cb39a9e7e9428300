# SPDX-License-Identifier: Apache-2.0

"""What the tests of one process share, because making it anew costs time.

* :mod:`tests.statements`: compiled SQL
* :mod:`.aliases`: placement's tables by other names
* :mod:`.schemas`: validators of requests and responses
* :mod:`.routes`: what Nova's API serves
* :mod:`.rules`: rules of policies
* :mod:`.proxies`: none, which need not be looked for
* :mod:`.cells`: databases of cells, which no thread waits for
* :mod:`.databases`: files that Nova's threads write in turn
* :mod:`.patience`: more time for what Nova's test base waits for
* :mod:`.garbage`: what Python's collector need not look at
* :mod:`.workers`: threads that wait for work
* :mod:`.leftovers`: none, of threads that are busy

Each is made once and never changes, or is the same for all tests: no test can
see what another one did. What is replaced has the same name in all releases of
Nova, placement and their libraries that are supported.
"""

import functools

from dev.cloud.lite import control
from tests.functional.shared import aliases
from tests.functional.shared import cells
from tests.functional.shared import garbage
from tests.functional.shared import proxies
from tests.functional.shared import routes
from tests.functional.shared import rules
from tests.functional.shared import schemas
from tests import statements


@functools.cache
def install() -> None:
    """Share from here on; the first test of a process calls it."""
    statements.install()
    aliases.install()
    schemas.install()
    routes.install()
    rules.install()
    proxies.install()
    cells.install()
    garbage.install()
    control.keep_threads()
