# SPDX-License-Identifier: Apache-2.0

"""Which processes are a server's. Only reads, and needs no privileges.

These sources say it. Each is asked for the servers of which those before it
have found nothing:

1. The command line: ``-uuid <server>``, or ``-name guest=<name>`` where there
   is no ``-uuid``. There are two such processes while a server migrates within
   its host. Only the first occurrence of an option counts. libvirt writes its
   own before those with values that come from an image (``-append``).
2. libvirt's pid file of the guest: the process that holds its lock.
3. The cgroup that libvirt has named after the guest.

**What is believed, and why.** A group's ways are for one server. Neither may
another program use them because it looks like that server, nor may a server
lose its own threads to the group of another.

* Any user may start a program with any command line. So the first source is
  believed of a process in the cgroup of a machine, if root alone can make and
  fill that, only if it is the machine of this server; and of a process that
  is in none only if its real user is one that libvirt runs QEMU as: root, this
  process' own, or one that the options name.
* A guest that has broken out of its QEMU can start programs as QEMU's user.
  They stay in the cgroup of its machine, so they are not believed when they
  name another server. Where libvirt makes no cgroups, nothing tells them
  apart: then such a guest can put itself into another's ways.
* In a container, this process may see the name of a cgroup and not who has
  made it. The name alone counts against a process that names another server,
  and for none.
* Which guest has a machine follows from the number that libvirt gives to each
  run of a guest, and from the name. While the hypervisor does not answer, its
  last answer counts; before the first one, nobody in any machine is believed.
  After it, a machine of no known guest is of another libvirt, or new: its
  processes are believed as if they were in none.
* The second and the third source are believed of any user: a pid file and
  a cgroup count only if root, or this process' user, alone can change them.
  The lock is one that only a writer of the file can hold.
* The names of guests come from the hypervisor itself. They are compared as a
  whole, because Nova's ``instance_name_template`` may put words of a tenant
  into them.
* What the second or the third source reports is left alone when any of the
  processes names another server: then it is of another libvirt.

Processes that name a server and are not believed are passed over, and logged
once for each user and each machine.

Sources: proc(5), fcntl(2), the kernel's "Control Group v2", and "Control
Groups Resource Management" of libvirt.
"""

import collections
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
import contextlib
import dataclasses
import functools
import os
import pwd
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from nova_ext_resources.drivers.resctrl.guest import answers
from nova_ext_resources.drivers.resctrl.guest import cgroups as cgroups_mod
from nova_ext_resources.drivers.resctrl.guest import doubts
from nova_ext_resources.drivers.resctrl.guest import pid_files
from nova_ext_resources.drivers.resctrl.guest import procfs
from nova_ext_resources.drivers.resctrl.guest import threads
from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.facts import guest as guest_obj
from nova_ext_resources import log_on_change

LOG = logging.getLogger(__name__)

#: How QEMU takes its options.
_DASHES = (b'-', b'--')

#: A comma within a value is written twice (qemu(1), "-name" and others).
_COMMA = b',,'


def find_server(line: bytes, names: Mapping[str, str]) -> str:
    """Return the server of a command line, '' when it is of none.

    :param line: words, each with a zero byte at its end
    :param names: the hypervisor's name of a guest -> its server; asked only
        where there is no ``-uuid``
    """
    words = line.split(b'\0')
    uuid = _find_value(words, b'uuid').decode('ascii', 'replace').lower()
    return uuid or names.get(_find_name(words), '')


def _find_name(words: list[bytes]) -> str:
    # No word has a zero byte in it.
    value = _find_value(words, b'name').replace(_COMMA, b'\0')
    name = value.split(b',')[0].replace(b'\0', b',')
    return name.removeprefix(b'guest=').decode('utf-8', 'replace')


def _find_value(words: list[bytes], name: bytes) -> bytes:
    for dashes in _DASHES:
        option = dashes + name
        if option in words[1:-1]:
            return words[words.index(option, 1) + 1]
    return b''


PROC = '/proc'

#: Users that libvirt starts QEMU as: in Debian and its kin, and in the others.
USERS = ('libvirt-qemu', 'qemu')

#: The parent of the kernel's threads, in the host's own PID namespace.
_KTHREADD = 2

Guests = answers.Guests


def from_options(
    options: cfg.ConfigOpts.GroupAttr,
    list_guests: Callable[[], Guests | None],
) -> 'Processes':
    """Make one as ``[ext_resources_resctrl]`` says."""
    unknown = [
        user
        for user in options.qemu_users
        if user not in USERS and not list(_list_uids([user]))
    ]
    if unknown:
        LOG.warning(
            '%(option)s names %(users)s, which this host does not know, so no '
            'process of this user counts as a server. Correct the name, or '
            'write the number of the user.',
            {'option': doubts.USERS_OPTION, 'users': ', '.join(unknown)},
        )
    return Processes(
        users=options.qemu_users,
        pid_path=options.pid_path,
        list_guests=list_guests,
    )


class Processes:
    """Finds the processes of all servers.

    :param proc: where the kernel shows its processes
    :param cgroup: where control groups are mounted, of either version
    :param users: names or numbers of those that libvirt runs QEMU as, beside
        root and the user of this process
    :param pid_path: folder of libvirt's pid files
    :param list_guests: returns server -> its guest, of all that have
        processes on this host now; None while that is unknown
    """

    def __init__(
        self,
        proc: str = PROC,
        cgroup: str = cgroups_mod.PATH,
        *,
        users: Iterable[str] = USERS,
        pid_path: str = pid_files.PATH,
        list_guests: Callable[[], Guests | None] = dict,
    ) -> None:
        self._proc = proc
        self._reader = procfs.ProcReader(proc)
        self._owners = frozenset({0, os.getuid()})
        self._cgroups = cgroups_mod.Cgroups(self._reader, cgroup, self._owners)
        self._users = self._owners | frozenset(_list_uids(users))
        self._pid_path = pid_path
        self._answers = answers.Answers(list_guests)
        # What was doubted and logged.
        self._logged = log_on_change.LogOnChange()

    def read_guests(self) -> Guests | None:
        """Ask the hypervisor which guests run; None: that is unknown."""
        return self._answers.ask()

    def scan(self) -> 'Scan':
        """Ask the hypervisor, and read every process once.

        :raises ResctrlError: those of others are hidden
        """
        return self.scan_for(self.read_guests())

    def scan_for(
        self, guests: Guests | None, *, is_complete: bool = True
    ) -> 'Scan':
        """Read every process once, and ask no service.

        :param guests: those that ran a moment ago; None: that is unknown
        :param is_complete: whether no other can have started since
        :raises ResctrlError: those of others are hidden
        """
        if self._reader.read_stat(1) is None:
            raise errors.ResctrlFailed(
                action='find the processes of servers',
                reason=f'{self._proc} does not show the processes of other '
                f'users; mount {self._proc} without hidepid, or with gid= of '
                'a group of the user of nova-compute',
            )
        scan = Scan(
            reader=self._reader,
            cgroups=self._cgroups,
            guests=guests or {},
            known=self._answers.last if guests is None else guests,
            is_complete=is_complete and guests is not None,
        )
        for pid in self._reader.list_numbers(''):
            line = self._reader.read(f'{pid}/cmdline')
            if not line:
                owner = self._reader.find_owner(pid)
                if owner is not None:
                    scan.helpers[owner].append(pid)
            elif uuid := scan.find_named(line):
                self._identify(scan, pid, uuid)
        if scan.list_absent():
            self._ask_pid_files(scan)
            self._ask_cgroups(scan)
        self._log_doubted(scan)
        return scan

    def _identify(self, scan: 'Scan', pid: int, uuid: str) -> None:
        """Note whose process it is, or that it only says so."""
        process, uid = self._reader.find(pid), self._reader.read_uid(pid)
        machine = self._cgroups.find_machine(pid)
        # The number may have got another meaning before it was read.
        line = self._reader.read(f'{pid}/cmdline')
        if not process or uid is None or scan.find_named(line) != uuid:
            return
        doubt = self._find_doubt(scan, uuid, machine, pid, uid)
        if doubt:
            scan.doubted[uuid].append(doubt)
        else:
            scan.servers[uuid].append(process)

    def _find_doubt(
        self,
        scan: 'Scan',
        uuid: str,
        machine: cgroups_mod.LibvirtMachine | None,
        pid: int,
        uid: int,
    ) -> doubts.Doubt | None:
        """Decide whether a process that names a server is not believed."""
        owner = scan.find_owner(machine) if machine else ''
        if machine and owner not in ('', uuid):
            return doubts.of_guest(
                pid, machine.name, owner, is_sure=machine.is_proved
            )
        if machine and scan.known is None:
            return doubts.of_silence(pid)
        # Users choose the names of their own cgroups, and may make many.
        proved = machine if machine and machine.is_proved else None
        if uid in self._users or (owner and proved):
            return None
        if proved:
            return doubts.of_machine(pid, proved.name)
        return doubts.of_user(pid, uid)

    def _ask_pid_files(self, scan: 'Scan') -> None:
        for uuid in scan.list_absent():
            path = self._make_path(scan.guests[uuid])
            pid = pid_files.find_holder(path, self._owners)
            if pid:
                scan.add(uuid, [pid])

    def _ask_cgroups(self, scan: 'Scan') -> None:
        inside = collections.defaultdict(list)
        for pid in self._reader.list_numbers('') if scan.list_absent() else ():
            machine = self._cgroups.find_machine(pid)
            if not machine or not machine.is_proved:
                continue
            if uuid := scan.find_owner(machine):
                inside[uuid, machine].append(pid)
        for uuid in scan.list_absent():
            for (owner, _machine), pids in inside.items():
                if owner == uuid:
                    scan.add(uuid, pids)

    def _make_path(self, guest: guest_obj.Guest) -> str:
        return pid_files.make_path(self._pid_path, guest.name)

    def _log_doubted(self, scan: 'Scan') -> None:
        for doubt in scan.list_doubted():
            # Whoever wrote the command line chose the name in it.
            if self._logged.note(doubt.subject, doubt.subject):
                LOG.warning(
                    'Process %(pid)s names a server in its command line, but '
                    'does not count as its process: %(advice)s. This is '
                    'logged once for each user and each machine.',
                    {'pid': doubt.pid, 'advice': doubt.advice},
                )

    def explain_absence(
        self, scan: 'Scan', consumers: Iterable[str]
    ) -> dict[str, str]:
        """Return server -> what was searched, of those that run unseen.

        A server that is off has no processes. One that has ended, or started
        anew, since the scan began counts as off. Where it is unknown which
        servers run, each of which none was found may be one of them.
        """
        absent = sorted(filter(scan.is_unseen, consumers))
        now = self._answers.ask() if absent else {}
        if now is None or not scan.is_complete:
            return dict.fromkeys(absent, doubts.SILENCE)
        return {
            uuid: self._explain(scan, uuid)
            for uuid in absent
            if now.get(uuid) == scan.guests[uuid]
        }

    def _explain(self, scan: 'Scan', uuid: str) -> str:
        """Explain; what to do comes first, because Nova cuts texts."""
        name = scan.guests[uuid].name
        return (
            f'{self._advise(scan, uuid)}. The hypervisor runs the server as '
            f'{name}, but no trusted process in {self._proc} has "-uuid '
            f'{uuid}" or "-name guest={name}" in its command line, no visible '
            f'process holds the lock of {self._make_path(scan.guests[uuid])}, '
            f'and no process is in a cgroup of libvirt for {name}'
        )

    def _advise(self, scan: 'Scan', uuid: str) -> str:
        found = scan.doubted[uuid]
        likely = [one.advice for one in found if one.may_be_it]
        posing = [one.advice for one in found if not one.may_be_it]
        first = likely or [self._advise_on_paths()]
        return '; '.join(first[:1] + posing[:1])

    def _advise_on_paths(self) -> str:
        kthreadd = self._reader.read_stat(_KTHREADD)
        if kthreadd is None or not kthreadd.is_of_kernel:
            return (
                "give the container of nova-compute the host's PID namespace "
                '(--pid=host, hostPID: true)'
            )
        return 'set [ext_resources_resctrl] pid_path to the folder of libvirt'


_make_lists: Callable[[], Any] = functools.partial(
    collections.defaultdict, list
)


@dataclasses.dataclass(kw_only=True)
class Scan:
    """What was found.

    :ivar guests: server -> its guest, of all that run
    :ivar known: the same; while it is unknown which run, those that last ran;
        None: none were ever reported
    :ivar is_complete: whether these are all; otherwise that is unknown
    :ivar servers: server -> its processes
    :ivar doubted: server -> processes that name it and are not believed
    :ivar helpers: thread -> kernel threads that work for it
    """

    reader: procfs.ProcReader
    cgroups: cgroups_mod.Cgroups
    guests: Guests
    known: Guests | None
    is_complete: bool = True
    servers: dict[str, list[procfs.Process]] = dataclasses.field(
        default_factory=_make_lists
    )
    doubted: dict[str, list[doubts.Doubt]] = dataclasses.field(
        default_factory=_make_lists
    )
    helpers: dict[int, list[int]] = dataclasses.field(
        default_factory=_make_lists
    )

    @functools.cached_property
    def names(self) -> dict[str, str]:
        """The name of each guest -> its server."""
        return {one.name: uuid for uuid, one in (self.known or {}).items()}

    @functools.cached_property
    def numbers(self) -> dict[int, str]:
        """The number of each guest -> its server."""
        return {one.number: uuid for uuid, one in (self.known or {}).items()}

    def find_owner(self, machine: cgroups_mod.LibvirtMachine) -> str:
        """Return the server that has a machine; '' when it is not known."""
        uuid = self.numbers.get(machine.number, '')
        guest = (self.known or {}).get(uuid)
        return uuid if guest and machine.is_named_after(guest.name) else ''

    def find_named(self, line: bytes) -> str:
        """Return the server that a command line names, or ''."""
        return find_server(line, self.names)

    def add(self, uuid: str, pids: Sequence[int]) -> None:
        """Note processes of a server, unless one of them names another."""
        lines = (self.reader.read(f'{pid}/cmdline') for pid in pids)
        if {self.find_named(line) for line in lines} <= {'', uuid}:
            found = list(filter(None, map(self.reader.find, pids)))
            self.servers[uuid].extend(found)

    def list_absent(self) -> list[str]:
        """Return the servers that run, and of which nothing was found."""
        return sorted(
            uuid for uuid in self.guests if not self.servers.get(uuid)
        )

    def is_unseen(self, uuid: str) -> bool:
        """Return whether it runs, or may run, and nothing was found of it."""
        may_run = not self.is_complete or uuid in self.guests
        return may_run and not self.servers.get(uuid)

    def list_doubted(self) -> list[doubts.Doubt]:
        """Return the processes that no other source vouches for."""
        found = {one.pid for own in self.servers.values() for one in own}
        return [
            one
            for named in self.doubted.values()
            for one in named
            if one.pid not in found
        ]

    def get(self, *consumers: str) -> threads.Server:
        """Return a server, or several that share a group, as one.

        It is without any process when it is off.
        """
        others = frozenset(
            one.pid
            for uuid, found in self.servers.items()
            if uuid not in consumers
            for one in found
        )
        own = tuple(
            one for uuid in consumers for one in self.servers.get(uuid, ())
        )
        return threads.Server(
            reader=self.reader,
            cgroups=self.cgroups,
            processes=own,
            others=others,
            helpers=self.helpers,
            has_unseen=any(map(self.is_unseen, consumers)),
        )


def _list_uids(users: Iterable[str]) -> Iterator[int]:
    for user in users:
        with contextlib.suppress(KeyError):
            yield int(user) if user.isdigit() else pwd.getpwnam(user).pw_uid
