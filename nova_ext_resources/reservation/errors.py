# SPDX-License-Identifier: Apache-2.0

"""What quotas, limits, changes of capacity, and subscriptions raise.

::

    ExtResourcesError
      + CapacityChangeError
        - InvalidCapacityChange
        - CapacityChangeExists
        - CapacityChangeNotFound
        - CapacityChangeRefused
      + LimitsError
        - InvalidLimits
        - LimitsNotFound
      + QuotaError
        - InvalidQuota
        - QuotaNotFound
      + ReservationError
        - LimitExceeded
        - QuotaExceeded
      + SubscriptionError
        - InvalidSubscription
        - SubscriptionNotFound
        - TooManySubscriptions
"""

from typing import Any

from nova_ext_resources import exception


class CapacityChangeError(exception.ExtResourcesError):
    """What is asked for a change of capacity cannot be done; all is as it was.

    :ivar key: the change
    """

    message = 'Capacity change %(key)s cannot be planned or taken back.'


class InvalidCapacityChange(CapacityChangeError):
    """What is asked for makes no sense, whatever is promised.

    :ivar field: the part of it that is wrong
    :ivar reason: why, and what would be right
    """

    message = 'Capacity change %(key)s: %(field)s: %(reason)s.'


class CapacityChangeExists(CapacityChangeError):
    """Another change was planned under this name."""

    message = (
        'Capacity change %(key)s exists already with another host, other '
        'amounts or times, or another reason. Choose another name, or delete '
        'the existing change.'
    )


class CapacityChangeNotFound(CapacityChangeError):
    """There is no such change."""

    message = (
        'There is no capacity change %(key)s; list the capacity changes to '
        'find the name.'
    )


class CapacityChangeRefused(CapacityChangeError):
    """It takes what is promised; nothing was changed.

    :ivar moved: reservations that would have to be moved
    :ivar degraded: reservations that would lack something: they have started
        or are about to, or fit nowhere else
    :ivar reasons: the same in words
    """

    message = (
        'Capacity change %(key)s takes capacity that is promised: '
        '%(reasons)s. Choose another time, change these reservations, or '
        'force the change.'
    )

    moved: tuple[str, ...]
    degraded: tuple[str, ...]

    @property
    def hurt(self) -> tuple[str, ...]:
        """All of these reservations, sorted."""
        return tuple(sorted([*self.moved, *self.degraded]))


class CapacityChangeNeeded(CapacityChangeRefused):
    """Reservations count on what it adds; it was not taken back."""

    message = (
        'Capacity change %(key)s was not deleted, because reservations count '
        'on it: %(reasons)s. Change these reservations first, or force the '
        'deletion: reservations that have not started are moved if they fit '
        'elsewhere, and all others lack the capacity.'
    )


class LimitsError(exception.ExtResourcesError):
    """What is asked for limits cannot be done; nothing was changed.

    :ivar project: its id
    """

    message = 'The limits of project %(project)s cannot be changed.'


class InvalidLimits(LimitsError):
    """There can be no such limits.

    :ivar reason: why, and what would be right
    """

    message = 'The limits of project %(project)s cannot be set: %(reason)s.'


class LimitsNotFound(LimitsError):
    """The project has the limits of all."""

    message = (
        'Project %(project)s has no limits of its own; list the limits to '
        'find the projects that have some.'
    )


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
        'Project %(project)s has no quota for %(resource_class)s; list the '
        'quotas to find the right one.'
    )


class LimitExceeded(exception.ReservationError):
    """It starts too late, or lasts too long; nothing was changed.

    :ivar project: of the reservation; '' if it has none
    :ivar reason: which limit it is, and what would be allowed
    """

    message = (
        'Reservation %(key)s may not %(reason)s, or ask the operators for '
        'another limit.'
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

    message = (
        'There is no subscription %(uuid)s; list the subscriptions to find '
        'the id.'
    )


class TooManySubscriptions(SubscriptionError):
    """The project has as many as it may have.

    :ivar project: its id
    :ivar limit: how many that is
    """

    message = (
        'The subscription cannot be made: project %(project)s may have '
        '%(limit)d subscriptions, counting suspended ones; delete one of '
        'them.'
    )

    limit: int
