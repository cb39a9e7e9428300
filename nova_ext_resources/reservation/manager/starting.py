# SPDX-License-Identifier: Apache-2.0

"""Writes that reservations have started."""

from nova_ext_resources.reservation import due
from nova_ext_resources.reservation.manager import chores
from nova_ext_resources.reservation.manager import watch
from nova_ext_resources.reservation.store import databases
from nova_ext_resources.reservation.store import progress


class Starting:
    """Also takes a start back, if it was only the clock."""

    def __init__(self, database: databases.Database) -> None:
        self._database = database

    def run(self, reading: watch.Reading) -> bool:
        """See :class:`~.chores.Chore`."""
        with self._database.transaction() as connection:
            found = progress.list_unfinished(connection)
        done = []
        for one in found:
            wanted = due.find_due(
                one.state, one.during, reading.now, is_steady=False
            )
            if wanted is not None:
                done.append(
                    chores.write(
                        self._database, one, wanted[0], reading.now, wanted[1]
                    ).is_well
                )
        return all(done)
