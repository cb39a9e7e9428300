# SPDX-License-Identifier: Apache-2.0

"""Errors that Blazar passes on as they are.

Blazar's API answers 500 without a text for an error whose class it does not
know, and its manager gives up a lease whose update fails with any class that
is not on a list of its own. Those that are raised here are on both of them.

The text goes to whoever asked for the lease. So it has no names of hosts, and
nothing of the services behind.
"""

from collections.abc import Iterator
import contextlib

from blazar import exceptions as blazar_exceptions
from blazar.manager import exceptions as manager_exceptions
from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources import exception
from nova_ext_resources.reservation.blazar import options
from nova_ext_resources.reservation import errors

LOG = logging.getLogger(__name__)

_UNAVAILABLE = (
    'Reservations cannot be made or changed now, because a service behind '
    'them does not answer. Try again later; operators find the reason in the '
    'log of blazar-manager'
)


@contextlib.contextmanager
def translating() -> Iterator[None]:
    """Raise errors of Blazar for ours.

    :raises InvalidInput: what is asked for makes no sense; 400
    :raises CantUpdateParameter: it cannot be had, or not now; 409
    """
    try:
        yield
    except (
        exception.InvalidReservation,
        exception.InvalidExtraSpec,
        errors.InvalidCapacityChange,
        errors.InvalidLimits,
        errors.InvalidQuota,
        errors.InvalidSubscription,
    ) as err:
        raise blazar_exceptions.InvalidInput(str(err)) from err
    except exception.ExtResourcesError as err:
        raise manager_exceptions.CantUpdateParameter(_explain(err)) from err


def _explain(err: exception.ExtResourcesError) -> str:
    """Return what a user may know of an error, and log the rest."""
    if isinstance(err, exception.ReservationRefused):
        LOG.info('%(err)s', {'err': err})
        if not options.get(cfg.CONF).show_hosts:
            return f'Reservation {err.key} does not fit: {err.offers}'
    elif not isinstance(
        err,
        (
            exception.ReservationError,
            errors.CapacityChangeError,
            errors.SubscriptionError,
        ),
    ):
        LOG.error('A request for reservations failed: %(err)s', {'err': err})
        return _UNAVAILABLE
    return str(err)
