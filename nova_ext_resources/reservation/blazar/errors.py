# SPDX-License-Identifier: Apache-2.0

"""Errors that Blazar passes on as they are.

Blazar's API answers 500 without a text for an error whose class it does not
know, and its manager gives up a lease whose update fails with any class that
is not on a list of its own. These two are on both of them.
"""

from collections.abc import Iterator
import contextlib

from blazar import exceptions as blazar_exceptions
from blazar.manager import exceptions as manager_exceptions

from nova_ext_resources import exception


@contextlib.contextmanager
def translating() -> Iterator[None]:
    """Raise errors of Blazar for ours, with the whole text.

    :raises InvalidInput: what is asked for makes no sense; 400
    :raises CantUpdateParameter: it cannot be had, or not now; 409
    """
    try:
        yield
    except (
        exception.InvalidReservation,
        exception.InvalidExtraSpec,
    ) as err:
        raise blazar_exceptions.InvalidInput(str(err)) from err
    except exception.ExtResourcesError as err:
        raise manager_exceptions.CantUpdateParameter(str(err)) from err
