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

"""Wait for something to become so, with a deadline."""

from collections.abc import Callable
import time
from typing import TypeVar

from demo import stage

_Found = TypeVar('_Found')

_POLL_SECONDS = 0.2


def until(
    find: Callable[[], _Found | None],
    told: str,
    *,
    seconds: float = 20.0,
) -> _Found:
    """Call ``find`` until it gives something true, and give that.

    :param told: what should become so, for the error
    :raises NotAsTold: it did not in ``seconds``
    """
    deadline = time.monotonic() + seconds
    while True:
        found = find()
        if found:
            return found
        if time.monotonic() > deadline:
            raise stage.NotAsTold(
                told, f'still not so after {seconds:.0f} s (last: {found!r})'
            )
        time.sleep(_POLL_SECONDS)
