# SPDX-License-Identifier: Apache-2.0

"""What the database of the reservations has for those that only look."""

import os

from osc_lib import exceptions
from oslo_config import cfg
from oslo_utils import timeutils

from nova_ext_resources.conf import reservation
from nova_ext_resources.reservation import promise_ledger
from nova_ext_resources.reservation import publication
from nova_ext_resources.reservation.site import loading
from nova_ext_resources.reservation.store import publications
from nova_ext_resources.reservation.store import reader
from nova_ext_resources.reservation.store import schema


def read(
    conf: cfg.ConfigOpts, promises: promise_ledger.Promises | None = None
) -> publication.Publications:
    """Return host -> its publication.

    :param promises: takes what is promised to reservations, but where its
        room is held in placement
    :raises CommandError: there is no such database
    :raises ExtResourcesError: the database cannot be read
    """
    database = loading.open_database(reservation.get_connection(conf))
    url = database.engine.url
    if url.get_backend_name() == 'sqlite' and not os.path.exists(
        str(url.database)
    ):
        # To connect would make it, with whoever asks as its owner.
        raise exceptions.CommandError(
            f'There is no database of reservations at {url.database}. Name a '
            'configuration file with the [ext_resources_reservation] '
            'connection that nova-scheduler has.'
        )
    schema.check(database)
    now = int(timeutils.utcnow_ts())
    is_held = reservation.find_lead(conf, ()) is not None
    if promises is not None and not is_held:
        with database.transaction() as connection:
            reader.Reader(promises).refresh(connection, now)
    return publications.read(database, now)
