# SPDX-License-Identifier: Apache-2.0

"""What the quotas of projects, and subscriptions, raise.

::

    ExtResourcesError
      + QuotaError
        - InvalidQuota
        - QuotaNotFound
      + ReservationError
        - QuotaExceeded
      + SubscriptionError
        - InvalidSubscription
        - SubscriptionNotFound
"""

from typing import Any

from nova_ext_resources import exception


class QuotaError(exception.ExtResourcesError):
    """What is asked for a quota cannot be done; nothing was changed.

    :ivar project: its id
    :ivar resource_class: what the quota is for
    """

    message = (
        'The quota of project %(project)s for %(resource_class)s cannot be '
        'changed.'
    )


class InvalidQuota(QuotaError):
    """There can be no such quota.

    :ivar reason: why, and what would be right
    """

    message = (
        'The quota of project %(project)s for %(resource_class)s cannot be '
        'set: %(reason)s.'
    )


class QuotaNotFound(QuotaError):
    """There is no such quota."""

    message = (
        'Project %(project)s has no quota for %(resource_class)s; list them '
        'to find it.'
    )


class QuotaExceeded(exception.ReservationError):
    """The project may not reserve so much; nothing was changed.

    :ivar project: its id
    :ivar shortages: what is short of each quota, a tuple of
        :class:`~nova_ext_resources.reservation.quota.Shortage`
    :ivar fitting: how many servers would be allowed for that time
    :ivar longest: for how many seconds in all so many servers as are needed
        would be allowed; 0 if for none
    :ivar reasons: the same in words
    """

    message = (
        'Reservation %(key)s exceeds what project %(project)s may reserve.\n'
        '%(reasons)s'
    )

    shortages: Any
    fitting: int
    longest: int


class SubscriptionError(exception.ExtResourcesError):
    """What is asked for a subscription cannot be done; nothing was changed."""

    message = 'The subscription cannot be made or changed.'


class InvalidSubscription(SubscriptionError):
    """There can be no such subscription.

    :ivar reason: the part of the request that is wrong, why, and what would be
        right
    """

    message = 'The subscription cannot be made: %(reason)s.'


class SubscriptionNotFound(SubscriptionError):
    """There is no such subscription.

    :ivar uuid: what was asked for
    """

    message = 'There is no subscription %(uuid)s; list them to find its id.'
