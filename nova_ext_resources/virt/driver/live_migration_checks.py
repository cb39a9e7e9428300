# SPDX-License-Identifier: Apache-2.0

"""Live migrations that a host refuses, and what Nova's conductor hears of it.

The conductor sets a server that runs to ERROR after an error that it does not
expect. After ``MigrationPreCheckError`` it tries another host, after
``NoValidHost`` none; both leave the server as it is (``_live_migrate`` and
``LiveMigrationTask``, read in and tried with Nova 34).

Also knows which live migration of a server has claimed on this host. Nova
accepts the next live migration of a server while a host may still be busy with
the former one: with its check, its preparation, or its rollback. When that
ends late, it must not touch what the next one has claimed, or what the server
runs with that has come by now.

All of this is lost with the process. Then the comparison with Nova releases
what a migration has left here.
"""

from collections.abc import Collection, Iterator, Mapping
import contextlib
import threading
from typing import Any

from nova import exception as nova_exc
from oslo_log import log as logging

from nova_ext_resources.objects.documents import stats
from nova_ext_resources.virt.driver import errors

LOG = logging.getLogger(__name__)


def check_source(instance: Any, known: Mapping[str, str]) -> None:
    """Refuse a server whose host would not release its units afterwards.

    :param known: stats of that host's compute node
    :raises MigrationPreCheckError: it has an older release of this package
    """
    if stats.KEY in known and stats.LIVE_KEY not in known:
        raise nova_exc.MigrationPreCheckError(
            reason=(
                f'server {errors.find_name(instance)} has extended resources, '
                'and the version of nova-ext-resources on its host would not '
                'release them after a live migration: upgrade '
                'nova-ext-resources there, and migrate the server again'
            )
        )


def check_guests(instance: Any, uuids: Collection[str]) -> None:
    """Refuse a server whose guest here would lose its units to a new claim.

    :param uuids: of the servers of which the hypervisor has a guest
    :raises MigrationPreCheckError: the server is one of them
    """
    if instance.uuid in uuids:
        raise nova_exc.MigrationPreCheckError(
            reason=(
                'this host has a guest of server '
                f'{errors.find_name(instance)} already (for example after a '
                'migration that Nova lost track of): find out which guest is '
                'in use, and remove the other guest from its hypervisor'
            )
        )


def check_order(instance: Any, migration_id: int, claimed: int | None) -> None:
    """Refuse a check of Nova that goes on after the next one has claimed.

    :param claimed: migration for which the server has claimed here, if any
    :raises MigrationPreCheckError: that is a later one
    """
    if claimed is not None and claimed > migration_id:
        raise nova_exc.MigrationPreCheckError(
            reason='a later live migration of server '
            f'{errors.find_name(instance)} has claimed on this host; Nova has '
            'abandoned the earlier migration, and nothing needs to be done'
        )


def check_cpus(instance: Any) -> None:
    """Refuse a server that would come with CPUs of its former host.

    :param instance: Nova has chosen no CPUs of this host for it
    :raises MigrationPreCheckError: it has a NUMA topology
    """
    if instance.numa_topology is not None:
        raise nova_exc.MigrationPreCheckError(
            reason=(
                f'server {errors.find_name(instance)} has a NUMA topology '
                'and extended resources, and its host cannot give it CPUs of '
                'another host in a live migration: upgrade Nova on both '
                'hosts, or migrate the server cold'
            )
        )


def check_functions(instance: Any, functions: Collection[str]) -> None:
    """Refuse a server whose guest has devices that it cannot take along.

    :param functions: addresses of PCI functions of its host
    :raises MigrationPreCheckError: it has some
    """
    if functions:
        raise nova_exc.MigrationPreCheckError(
            reason=f'server {errors.find_name(instance)} has PCI devices of '
            'its host in its guest, so the guest cannot be migrated live: '
            'migrate the server cold'
        )


def make_no_package(instance: Any) -> nova_exc.MigrationPreCheckError:
    """Return why a server is not sent to a host without our driver."""
    return nova_exc.MigrationPreCheckError(
        reason=(
            f'server {errors.find_name(instance)} has extended resources, '
            'but the chosen host runs without nova-ext-resources, or without '
            'an enabled plugin: enable a plugin there, or choose another host'
        )
    )


def make_no_migration(instance: Any) -> nova_exc.MigrationPreCheckError:
    """Return why a server is refused whose migration is omitted."""
    return nova_exc.MigrationPreCheckError(
        reason=(
            f'server {errors.find_name(instance)} has extended resources, '
            'but the conductor does not name the migration to the host, '
            'because [upgrade_levels] compute pins its RPC below 5.3: remove '
            'this option from the nova.conf of the conductors, and migrate '
            'the server again'
        )
    )


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turn every error into one after which the server stays as it is."""
    try:
        yield
    except nova_exc.MigrationPreCheckError:
        raise
    except nova_exc.BuildAbortException as err:
        raise nova_exc.NoValidHost(reason=err.kwargs['reason']) from err
    except nova_exc.NovaException as err:
        raise nova_exc.MigrationPreCheckError(
            reason=err.format_message()
        ) from err
    # Whatever it is: Nova would set a server that runs to ERROR.
    except Exception as err:
        LOG.exception('The live migration of a server is refused')
        raise nova_exc.MigrationPreCheckError(
            reason=(
                'the chosen host failed unexpectedly, see the log of its '
                'nova-compute'
            )
        ) from err


class MigrationAttempts:
    """Threads of Nova change it, one item at a time.

    Migrations are known by Nova's number, which is larger for a later one.
    """

    def __init__(self) -> None:
        # Server -> migration.
        self._claimed: dict[str, int] = {}
        # Two migrations of a server may be undone at once.
        self._thread = threading.local()

    def begin(self, server_uuid: str, migration_id: int) -> None:
        """Note for which migration a server is about to claim."""
        self._claimed[server_uuid] = migration_id

    def end(self, server_uuid: str) -> None:
        """Note that the server has come, or that nothing waits for it."""
        self._claimed.pop(server_uuid, None)

    def find(self, server_uuid: str) -> int | None:
        """Return the migration for which a server has claimed; None: none."""
        return self._claimed.get(server_uuid)

    @contextlib.contextmanager
    def undoing(self, migration_id: int | None) -> Iterator[None]:
        """Surround what undoes a migration to this host, in its thread.

        :param migration_id: None where it is not known
        """
        self._thread.undone = (migration_id,)
        try:
            yield
        finally:
            del self._thread.undone

    def keeps_claim(self, server_uuid: str) -> bool:
        """Return whether this thread undoes a migration without a claim."""
        undone = getattr(self._thread, 'undone', None)
        return undone is not None and (
            None in undone or undone != (self.find(server_uuid),)
        )
