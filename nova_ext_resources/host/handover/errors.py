# SPDX-License-Identifier: Apache-2.0

"""What a hand-over raises."""

from nova_ext_resources import exception


class HandOverFailed(exception.ExtResourcesError):
    """The hand-over has stopped.

    :ivar host: the compute host
    :ivar reason: why, the state, and what to do
    """

    message = 'Hand-over of host %(host)s: %(reason)s'
