# SPDX-License-Identifier: Apache-2.0

"""Live migrations that a host refuses, and what Nova's conductor hears of it.

The conductor sets a server that runs to ERROR after an error that it does not
expect. After ``MigrationPreCheckError`` it tries another host, after
``NoValidHost`` none; both leave the server as it is (``_live_migrate`` and
``LiveMigrationTask``, read in and tried with Nova 34).
"""

from collections.abc import Collection, Iterator, Mapping
import contextlib
from typing import Any

from nova import exception as nova_exc
from oslo_log import log as logging

from nova_ext_resources.objects import stats
from nova_ext_resources.virt import errors

LOG = logging.getLogger(__name__)


def check_source(instance: Any, known: Mapping[str, str]) -> None:
    """Refuse a server whose host would not release its units afterwards.

    :param known: stats of that host's compute node
    :raises MigrationPreCheckError: it has an older release of this package
    """
    if stats.KEY in known and stats.LIVE_KEY not in known:
        raise nova_exc.MigrationPreCheckError(
            reason=f'server {errors.find_name(instance)} has extended '
            'resources, and its host has a release of nova-ext-resources '
            'that keeps them after a live migration: upgrade it there, '
            'and migrate the server again'
        )


def check_guests(instance: Any, uuids: Collection[str]) -> None:
    """Refuse a server whose guest here would lose its units to a new claim.

    :param uuids: of the servers of which the hypervisor has a guest
    :raises MigrationPreCheckError: the server is one of them
    """
    if instance.uuid in uuids:
        raise nova_exc.MigrationPreCheckError(
            reason=f'this host has a guest of server '
            f'{errors.find_name(instance)} already, as after a migration '
            'of which Nova lost track: find out which guest is in use, '
            'and remove the other one from its hypervisor'
        )


def check_order(instance: Any, migration_id: int, claimed: int | None) -> None:
    """Refuse a check of Nova that goes on after the next one has claimed.

    :param claimed: migration for which the server has claimed here, if any
    :raises MigrationPreCheckError: that is a later one
    """
    if claimed is not None and claimed > migration_id:
        raise nova_exc.MigrationPreCheckError(
            reason=f'a later live migration of server '
            f'{errors.find_name(instance)} has claimed on this host; Nova '
            'has given this one up, and nothing needs to be done'
        )


def check_cpus(instance: Any) -> None:
    """Refuse a server that would come with CPUs of its former host.

    :param instance: Nova has chosen no CPUs of this host for it
    :raises MigrationPreCheckError: it has a NUMA topology
    """
    if instance.numa_topology is not None:
        raise nova_exc.MigrationPreCheckError(
            reason=f'server {errors.find_name(instance)} has a NUMA '
            'topology and extended resources, and its host cannot migrate '
            'it live with CPUs of another host: upgrade Nova on both '
            'hosts, or migrate the server cold'
        )


def check_functions(instance: Any, functions: Collection[str]) -> None:
    """Refuse a server whose guest has devices that it cannot take along.

    :param functions: addresses of PCI functions of its host
    :raises MigrationPreCheckError: it has some
    """
    if functions:
        raise nova_exc.MigrationPreCheckError(
            reason=f'server {errors.find_name(instance)} has PCI devices of '
            'its host in its guest, which cannot be migrated live: migrate '
            'the server cold'
        )


def make_no_package(instance: Any) -> nova_exc.MigrationPreCheckError:
    """Return why a server is not sent to a host without our driver."""
    return nova_exc.MigrationPreCheckError(
        reason=f'server {errors.find_name(instance)} has extended '
        'resources, and the host that was chosen for it runs without '
        'nova-ext-resources, or with no plugin of it enabled: enable one '
        'there, or choose another host'
    )


def make_no_migration(instance: Any) -> nova_exc.MigrationPreCheckError:
    """Return why a server is refused whose migration is omitted."""
    return nova_exc.MigrationPreCheckError(
        reason=f'server {errors.find_name(instance)} has extended '
        'resources, and the conductor omits the migration, because '
        '[upgrade_levels] compute pins its RPC below 5.3: remove this option '
        'from the nova.conf of the conductors, and migrate the server again'
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
        LOG.exception('A server that is migrated live is refused')
        raise nova_exc.MigrationPreCheckError(
            reason='the host that was chosen for it failed unexpectedly, see '
            'the log of its nova-compute'
        ) from err
