# SPDX-License-Identifier: Apache-2.0

"""Nova's claim in placement, with what is asked before and after it.

Before: whether the host still has what others may have been given meanwhile
(``given``). After: whether all that is promised can be kept (``claimed``).
What one scheduler gives back may have been too much for a server that has
reserved, so the claim of such a server is tried again.
"""

from collections.abc import Callable
import functools
import inspect
import time
from typing import Any

from nova.scheduler import utils
from oslo_log import log as logging

from nova_ext_resources.scheduler import ongoing as ongoing_mod

LOG = logging.getLogger(__name__)

#: Seconds before each further try of a reserved server: claims that go too far
#: are given back at once.
PAUSES = (0.1, 0.3, 1.0, 2.0)

_ARGUMENTS = ['ctx', 'client', 'spec_obj', 'instance_uuid', 'alloc_req']


def _try_again(claim: Callable[[], Any]) -> Any:
    for pause in PAUSES:
        time.sleep(pause)
        if claim():
            return True
    return False


def _wrap(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def claim_resources(
        ctx: Any,
        client: Any,
        spec_obj: Any,
        instance_uuid: str,
        alloc_req: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        claim = functools.partial(
            original,
            ctx,
            client,
            spec_obj,
            instance_uuid,
            alloc_req,
            *args,
            **kwargs,
        )
        ongoing = ongoing_mod.find(spec_obj)
        if instance_uuid in ongoing.placed:
            return claim() or _try_again(claim)
        if not ongoing.take(instance_uuid, alloc_req):
            return False
        is_claimed = False
        try:
            is_claimed = claim() and (
                ongoing.check is None
                or ongoing.check(ctx, client, instance_uuid, alloc_req)
            )
        finally:
            if not is_claimed:
                ongoing.give_back(instance_uuid)
        return is_claimed

    return claim_resources


@functools.cache
def install() -> None:
    """Ask before and after each claim of this scheduler."""
    original = utils.claim_resources
    names = list(inspect.signature(original).parameters)
    if names[: len(_ARGUMENTS)] != _ARGUMENTS:
        LOG.error(
            'nova.scheduler.utils.claim_resources of this Nova has other '
            'arguments (%(names)s): requests at the same time may get the '
            'same host, and the same room beside a reservation. Install a '
            'release of nova-ext-resources that is for this release of Nova.',
            {'names': ', '.join(names)},
        )
        return
    utils.claim_resources = _wrap(original)
