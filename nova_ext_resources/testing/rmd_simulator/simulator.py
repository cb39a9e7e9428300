# SPDX-License-Identifier: Apache-2.0

"""A simulated RMD that listens on a port, to be held in the hand.

What a test or a demonstration does to it that a client of RMD cannot do:
look at what is really applied, take ways as other software would, let it
fail, and restart it. The same can be done over HTTP below ``/-/``, a path
that RMD does not have; see :mod:`.control`.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
import json
import os
import pathlib
import tempfile
import threading
from typing import Any

from nova_ext_resources.testing.rmd_simulator import access
from nova_ext_resources.testing.rmd_simulator import control
from nova_ext_resources.testing.rmd_simulator import daemon
from nova_ext_resources.testing.rmd_simulator import enforcement
from nova_ext_resources.testing.rmd_simulator import faults
from nova_ext_resources.testing.rmd_simulator import masks
from nova_ext_resources.testing.rmd_simulator import messages
from nova_ext_resources.testing.rmd_simulator import resctrl
from nova_ext_resources.testing.rmd_simulator import routes
from nova_ext_resources.testing.rmd_simulator import server
from nova_ext_resources.testing.rmd_simulator import settings as settings_mod
from nova_ext_resources.testing.rmd_simulator import workload


class Simulator:
    """One RMD on one host.

    :param port: 0 for any free one
    :param tls: certificates; None for RMD's debug mode, plain HTTP
    :param users: name -> password, for RMD with ``clientauth = no``
    :param database: a file that outlives the process: its records, and the
        groups, which belong to the kernel
    :ivar requests: (method, path) of all requests to RMD so far
    :ivar on_change: called after each change of the groups, as a model of the
        kernel that shows them has to know
    """

    def __init__(
        self,
        settings: settings_mod.Settings | None = None,
        *,
        address: str = '127.0.0.1',
        port: int = 0,
        tls: server.Tls | None = None,
        users: Mapping[str, str] | None = None,
        database: str | None = None,
    ) -> None:
        self.settings = settings or settings_mod.Settings()
        self.daemon = daemon.Daemon(self.settings)
        self.faults = faults.Faults()
        self.requests: list[tuple[str, str]] = []
        self.on_change: list[Callable[[], object]] = []
        self._users = users
        self._database = pathlib.Path(database) if database else None
        self._saving = threading.Lock()
        self._ending = threading.Event()
        self._restarts: list[threading.Thread] = []
        self._load()
        self._server = server.Server(
            self.handle, self.faults, address=address, port=port, tls=tls
        )

    # Running.

    @property
    def url(self) -> str:
        """Where it listens, or will."""
        return self._server.url

    def start(self) -> None:
        """Listen."""
        self._ending.clear()
        self._server.start()

    def stop(self) -> None:
        """Listen no more; all threads have ended when it returns."""
        self._ending.set()
        for thread in self._restarts:
            thread.join()
        self._server.stop()

    def refuse_connections(self) -> None:
        """Be as if the process were gone; the port stays known."""
        self._server.stop()

    def accept_connections(self) -> None:
        """Listen again, on the same port."""
        self._server.start()

    def restart(
        self, *, keep_database: bool = True, keep_groups: bool | None = None
    ) -> None:
        """Restart the daemon.

        :param keep_database: whether its records survive
        :param keep_groups: whether the kernel keeps its groups; by default
            they go with the records, as when the host is rebooted
        :raises StartFailed: it does not start; it listens no more
        """
        is_kept = keep_database if keep_groups is None else keep_groups
        self._server.stop()
        self.daemon.restart(keep_database=keep_database, keep_groups=is_kept)
        self._note_change()
        if not self._ending.is_set():
            self._server.start()

    def remount(self) -> None:
        """Mount resctrl anew: the groups are gone, and RMD knows nothing.

        They are gone until it is restarted; the first start fails, and makes
        them.
        """
        with self.daemon.locked():
            self.daemon.resctrl.clear()
            self.daemon.resctrl.remove_groups()
        self._note_change()

    def remove_groups(self) -> None:
        """Remove RMD's groups, as an operator does once it has ended."""
        with self.daemon.locked():
            self.daemon.resctrl.remove_groups()
        self._note_change()

    def restart_later(
        self, *, keep_database: bool, delay: float, down_for: float
    ) -> None:
        """Restart after ``delay`` seconds, away for ``down_for`` seconds."""

        def act() -> None:
            self._ending.wait(delay)
            self._server.stop()
            self._ending.wait(down_for)
            self.restart(keep_database=keep_database)

        thread = threading.Thread(target=act, name='rmd-restart')
        self._restarts.append(thread)
        thread.start()

    # Looking and interfering.

    def list_groups(self) -> list[dict[str, Any]]:
        """Return all control groups as they are applied."""
        owners: dict[str, list[str]] = {}
        with self.daemon.locked():
            for record in self.daemon.list_records():
                owner = record.uuid or record.id
                owners.setdefault(record.cos_name, []).append(owner)
            return [
                _describe(
                    group, self.settings.ways, owners.get(group.name, [])
                )
                for group in self.daemon.resctrl.groups.values()
            ]

    @property
    def groups(self) -> Mapping[str, resctrl.Group]:
        """The control groups by name."""
        return self.daemon.resctrl.groups

    def group_of(self, uuid: str) -> resctrl.Group:
        """Return the control group of a server.

        :raises KeyError: it has no workload
        """
        for record in self.daemon.list_records():
            if uuid in (record.uuid, record.id):
                return self.groups[record.cos_name]
        raise KeyError(uuid)

    def ways_of(self, uuid: str) -> dict[int, int]:
        """Return the masks applied for a server, per cache.

        :raises KeyError: it has no workload
        """
        return dict(self.group_of(uuid).ways)

    def add_foreign_group(
        self, name: str, ways: Mapping[int, int], cpus: Iterable[int] = ()
    ) -> None:
        """Take ways as other software would.

        :param ways: cache id -> mask
        """
        with self.daemon.locked():
            self.daemon.resctrl.add_foreign(name, ways, cpus)
        self._note_change()

    def remove_foreign_group(self, name: str) -> None:
        """Remove a group that ``add_foreign_group`` made."""
        with self.daemon.locked():
            self.daemon.resctrl.remove_foreign(name)
        self._note_change()

    def set_offline(self, cpus: Iterable[int]) -> None:
        """Switch these CPUs off, and all others on."""
        with self.daemon.locked():
            self.daemon.resctrl.set_offline(cpus)
        self._note_change()

    def add_workload(self, body: Mapping[str, Any]) -> None:
        """Put a workload on record as RMD's Nova listener does."""
        record = workload.from_stored(body)
        record.origin = workload.OPENSTACK
        self.daemon.create(record)
        self._note_change()

    def lie(
        self,
        is_lying: bool = True,
        calls: Collection[str] = enforcement.CALLS,
    ) -> None:
        """Let libpqos fail, or only these calls of it.

        RMD says 201 and enforces nothing, and says 200 and releases nothing:
        the kernel keeps CPUs and ways, and the class is lost.
        """
        if unknown := set(calls) - enforcement.CALLS:
            raise ValueError(f'calls {sorted(unknown)} do not exist')
        self.daemon.enforcement.failing = frozenset(calls if is_lying else ())

    def break_plugins(self, is_failing: bool = True) -> None:
        """Let plugins fail after RMD has taken class, ways and cores."""
        self.daemon.enforcement.is_plugin_failing = is_failing

    # Answering.

    def handle(self, request: messages.Request) -> messages.Response:
        """Answer one request.

        :raises Panic: the connection is to be closed without an answer
        """
        if request.path.startswith(control.PREFIX):
            return control.respond(self, request)
        self.requests.append((request.method, request.path))
        refusal = self._users and access.refuse(self._users, request)
        if refusal:
            return refusal
        try:
            return routes.respond(self.daemon, request)
        finally:
            if request.method != 'GET':
                self._note_change()

    def _load(self) -> None:
        if self._database and self._database.exists():
            self.daemon.load_dict(json.loads(self._database.read_text()))

    def _note_change(self) -> None:
        for listener in self.on_change:
            listener()
        if self._database is None:
            return
        with self._saving:
            data = json.dumps(self.daemon.to_dict())
            handle, name = tempfile.mkstemp(dir=self._database.parent)
            with os.fdopen(handle, 'w') as file:
                file.write(data)
            os.replace(name, self._database)


def _describe(
    group: resctrl.Group, ways: int, owners: list[str]
) -> dict[str, Any]:
    digits = -(-ways // 4)
    return {
        'name': group.name,
        'is_foreign': group.is_foreign,
        'schemata': {
            'L3': {
                str(cache_id): f'{mask:0{digits}x}'
                for cache_id, mask in sorted(group.ways.items())
            },
            'MB': {
                str(cache_id): limit
                for cache_id, limit in sorted(group.bandwidth.items())
            },
        },
        'cpus': masks.format_ranges(group.cpus),
        'tasks': list(group.tasks),
        'workloads': owners,
    }
