# SPDX-License-Identifier: Apache-2.0

"""Applies cache ways and memory bandwidth through the kernel."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import ClassVar, TypeAlias
import contextlib

from oslo_config import cfg
from oslo_log import log as logging
import tenacity

from nova_ext_resources.conf.drivers import resctrl
from nova_ext_resources.drivers import base
from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.rdt import refusals
from nova_ext_resources.drivers.resctrl.guest import lookup
from nova_ext_resources.drivers.resctrl.guest import processes as procs
from nova_ext_resources.drivers.resctrl.kernel import errors
from nova_ext_resources.drivers.resctrl.kernel import file_system
from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.policy import choice
from nova_ext_resources.drivers.resctrl.policy import constraints
from nova_ext_resources.drivers.resctrl.policy import layout
from nova_ext_resources.drivers.resctrl.policy import machine
from nova_ext_resources.drivers.resctrl.policy import ownership
from nova_ext_resources.drivers.resctrl.policy import pool as pool_mod
from nova_ext_resources.drivers.resctrl.policy import pools
from nova_ext_resources.drivers.resctrl.policy import recognition
from nova_ext_resources.drivers.resctrl.policy import shared_pool
from nova_ext_resources.drivers.resctrl.policy import verify
from nova_ext_resources.drivers.resctrl.policy import write_order
from nova_ext_resources.drivers.resctrl import task_membership
from nova_ext_resources.drivers.resctrl import writer
from nova_ext_resources import exception
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import tunable_units

LOG = logging.getLogger(__name__)

Assignments: TypeAlias = tuple[assignment.Assignment, ...]


#: Other software may have what the host counts as free.
_USED_UP = (errors.NoFreeClosid, errors.NoFreeRmid)

#: The kernel looks once a second which monitoring ids have left limbo.
RETRYING = tenacity.Retrying(
    retry=tenacity.retry_if_exception_type(errors.NoFreeRmid),
    stop=tenacity.stop_after_attempt(6),
    wait=tenacity.wait_fixed(0.5),
    reraise=True,
)


class ResctrlEnforcer(base.Enforcer):
    """One control group per server, with the CPUs that it is pinned to.

    A server whose CPUs float has its threads in the group instead: they use
    the group's ways and bandwidth on whatever CPU they run, also on one that
    belongs to another group ("User Interface for Resource Control feature",
    resource allocation rules).

    Every change is made the same way: find the owner of each unit, decide
    what is to be there, find the steps, carry them out.

    :param files: in place of the mount that ``path`` names
    :param processes: in place of those that ``/proc`` shows
    """

    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = resctrl.OPTS
    RESOURCE_CLASSES = frozenset(
        {
            classes.CLOS,
            classes.SHARED,
            *ownership.OWN_WAYS,
            *pools.CLASSES,
        }
    )
    EXCLUDES = frozenset({'rmd'})

    def __init__(
        self,
        options: cfg.ConfigOpts.GroupAttr,
        host: str,
        entries: base.EntriesReader = dict,
        guests: base.GuestsReader = dict,
        files: file_system.FileSystem | None = None,
        processes: procs.Processes | None = None,
    ) -> None:
        super().__init__(options, host, entries, guests)
        self._processes = processes or procs.from_options(options, guests)
        self._searches = lookup.Searches(self._processes)
        self._writer = writer.Writer(
            files or file_system.RealFileSystem(options.path),
            options.cpu_path,
            machine.make(options, host),
        )
        # What fine tuning has set; changed while the mount is locked.
        self._amounts: dict[pool_mod.Key, Mapping[str, int]] = {}
        # What list_applied saw; never changed by a change under way.
        self._seen: groups.Tree | None = None
        # The same, with what was changed since.
        self._last: groups.Tree | None = None
        self._members = task_membership.TaskMembership(
            self._processes, self._writer
        )
        # Of the servers that is_applied was asked for since.
        self._problems: list[alarm.Problem] = []

    # -- what the host asks for ----------------------------------------

    @property
    def constraints(self) -> Mapping[str, host_constraints.ClassConstraints]:
        return constraints.CONSTRAINTS

    def check_ready(self) -> None:
        with self._translated(None):
            self._writer.check_ready()

    def find_host_problem(self) -> str:
        with self._translated(None):
            return self._writer.find_problem()

    def apply(self, entry: assignment.Entry) -> Assignments:
        self._members.take_back(entry.consumer_uuid)
        is_shared = choice.is_shared(entry)
        name = groups.SHARED
        if not is_shared:
            name = groups.make_name(entry.consumer_uuid)
        with self._translated(entry):
            # Before the lock is held: others wait for it.
            search = (
                self._searches.begin_shared([*self._list_others(entry), entry])
                if is_shared
                else self._searches.begin(entry)
            )
            for attempt in RETRYING:
                with attempt, self._writer.changing(name=name) as tree:
                    assignments, desired = self._plan(tree, entry)
                    self._writer.run(
                        write_order.plan_writes(tree, desired),
                        find_server=search.find,
                        undo=lambda now: self._plan_without(now, name),
                    )
                    self._forget_amounts(pools.list_keys([entry]))
                    if is_shared:
                        self._searches.note_joined()
        if not entry.cpus:
            self._check_found(entry, search.scan)
        return assignments

    def _check_found(
        self, entry: assignment.Entry, scan: procs.Scan | None
    ) -> None:
        """Make sure that a server that runs has its threads in its group.

        Comes last: what other software has changed is restored anyway.
        """
        uuid = entry.consumer_uuid
        with self._translated(entry):
            if scan is None or not scan.is_complete:
                scan = self._processes.scan()
            for reason in self._processes.explain_absence(
                scan, [uuid]
            ).values():
                raise _make_absent(reason)

    def plan(
        self, entry: assignment.Entry
    ) -> tuple[write_order.GroupChange, ...]:
        """Return what :meth:`apply` would do, and do nothing.

        :raises EnforcementFailed, ClaimError: it would fail
        """
        with self._translated(entry):
            tree = self._writer.read()
            _assignments, desired = self._plan(tree, entry)
            return write_order.plan_writes(tree, desired)

    def _plan(
        self, tree: groups.Tree, entry: assignment.Entry
    ) -> tuple[Assignments, layout.Desired]:
        """Decide which units a server has, and what all groups have then."""
        cpus = (entry.cpus or frozenset()) & self._writer.machine.online
        self._check_cpus(tree, entry, cpus)
        owned = self._find_owners(tree)
        assignments = choice.choose(owned, entry)
        if choice.is_shared(entry):
            servers = [*self._list_others(entry), entry]
            members = shared_pool.make_members(tree, servers, cpus)
            return assignments, layout.layout(
                owned, members={groups.SHARED: members}
            )
        uuid = entry.consumer_uuid
        own = {
            cache: ways
            for cache, ways in ownership.list_ways(assignments).items()
            if ways is not None
        }
        wanted = pools.make_room(
            owned, entry, assignments, layout.Wanted(ways=own), self._amounts
        )
        members = layout.GroupMembers(
            cpus=cpus, floating=() if entry.cpus else (uuid,)
        )
        return assignments, layout.layout(
            owned, wanted, members={groups.make_name(uuid): members}
        )

    def _plan_without(
        self, tree: groups.Tree, name: str
    ) -> tuple[write_order.GroupChange, ...]:
        """Return the steps after which a group is gone."""
        owned = self._find_owners(tree.without(name), groups.parse_name(name))
        return write_order.plan_writes(tree, layout.layout(owned))

    def release(self, entry: assignment.Entry) -> None:
        # The group of the pool has a name, and servers in it that may be
        # unknown: it does not go with an orphan that has a group of its own.
        is_shared = choice.is_shared(entry) or (
            entry.consumer_uuid == groups.SHARED
        )
        name = groups.SHARED if is_shared else ''
        # Threads are put into no group but that of the pool.
        search = self._searches.begin_shared(
            self._list_others(entry) if is_shared else ()
        )
        with (
            self._translated(entry),
            self._writer.changing(name=name, is_quick=True) as tree,
        ):
            left = tree.without(groups.make_name(entry.consumer_uuid))
            members = {}
            others = self._list_others(entry)
            unknown = shared_pool.list_unknown_cpus(tree, entry)
            if is_shared and not others and not unknown:
                shared_pool.check_left(tree, entry, self._members.in_pool)
                left = left.without(groups.SHARED)
            elif is_shared and tree.shared:
                members[groups.SHARED] = (
                    shared_pool.make_members(tree, others)
                    if others
                    else layout.GroupMembers(cpus=unknown)
                )
            owned = self._find_owners(left, entry.consumer_uuid)
            keys = pools.list_keys(
                [entry] if entry.assignments else owned.entries.values()
            )
            wanted = pools.relax(owned, keys, self._amounts)
            desired = layout.layout(owned, wanted, members=members)
            self._writer.run(
                write_order.plan_writes(tree, desired), find_server=search.find
            )
            self._forget_amounts(keys)

    def list_applied(self) -> frozenset[str]:
        self._problems = []
        with self._translated(None):
            seen = self._writer.read()
            self._members.read(seen, self.list_entries())
            self._seen = self._last = seen
            return frozenset(seen.ours) | shared_pool.list_applied(
                seen, self.list_entries()
            )

    def recover_units(self, entry: assignment.Entry) -> Assignments | None:
        assert self._seen is not None, 'list_applied comes first'
        found = recognition.recover_units(
            self._seen, self._writer.machine, self.list_entries(), entry
        )
        return None if found is None else found.assignments

    def is_applied(self, entry: assignment.Entry) -> bool:
        assert self._seen is not None, 'list_applied comes first'
        owned = self._find_owners(self._seen)
        reason = verify.find_problem(owned, entry) or (
            self._members.find_problem(entry)
        )
        if reason:
            LOG.warning(
                'Host %(host)s: server %(uuid)s does not get the resources '
                'allocated to it: %(reason)s',
                {
                    'host': self.host,
                    'uuid': entry.consumer_uuid,
                    'reason': reason,
                },
            )
        found = [verify.find_io_fault(owned, entry)]
        absence = self._members.find_absence(entry.consumer_uuid)
        if absence and not reason:
            # To apply it again would find no more than the next audit.
            found.append(str(_make_absent(absence)))
        self._note_problems(entry, *filter(None, found))
        return not reason

    def _note_problems(self, entry: assignment.Entry, *reasons: str) -> None:
        """Report what to apply a server again would not mend."""
        uuid = entry.consumer_uuid
        self._problems += [
            alarm.Problem(
                alarm=alarm.NOT_APPLIED,
                subject=uuid,
                text=str(self._make_failed(uuid, reason)),
            )
            for reason in reasons
        ]

    def list_problems(self) -> tuple[alarm.Problem, ...]:
        return tuple(self._problems)

    def find_entry_problem(self, entry: assignment.Entry) -> str:
        tree = self._writer.known
        problem = ''
        if tree is not None:
            problem = verify.find_problem(self._find_owners(tree), entry)
        return problem or self._members.find_foreign_threads(
            entry.consumer_uuid
        )

    # -- what may be moved while servers run -----------------------------

    def list_tunables(self) -> tuple[tunable_units.Tunable, ...]:
        if self._last is None:
            return ()
        owned = self._find_owners(self._last)
        found = (
            pool_mod.make_pool(owned, key)
            for key in pools.list_keys(owned.entries.values())
        )
        return tuple(
            one
            for pool in found
            # Of what is not there nothing can be moved; the audit reports it.
            if pool and not pool.is_overdrawn
            for one in pool.list_tunables()
        )

    def set_tunables(self, tunables: Sequence[tunable_units.Tunable]) -> None:
        with (
            self._translated(None),
            self._writer.changing(is_quick=True),
        ):
            for key in {(one.rp_key, one.resource_class) for one in tunables}:
                owned = self._find_owners(self._writer.tree)
                try:
                    pool = pool_mod.make_pool(owned, key)
                    if pool is None:
                        raise ValueError('no server holds any unit')
                    known = self._amounts.get(key, {})
                    amounts = pool.read_tunables(tunables, known)
                except ValueError as err:
                    raise self._make_failed(
                        '', f'{key[1]} of {key[0]}: {err}'
                    ) from err
                wanted = pools.divide([pool], {key: amounts})
                desired = layout.layout(owned, wanted)
                self._writer.run(write_order.plan_writes(owned.tree, desired))
                self._amounts[key] = amounts
                self._last = self._writer.tree

    def _forget_amounts(self, keys: Iterable[pool_mod.Key]) -> None:
        """Forget amounts that were set for other servers than there are."""
        self._last = self._writer.tree
        if not self._amounts:
            return
        owned = self._find_owners(self._last)
        for key in pools.list_outdated(owned, keys, self._amounts):
            del self._amounts[key]

    # -- what is there -------------------------------------------------

    def _find_owners(
        self, tree: groups.Tree, without: str = ''
    ) -> ownership.Ownership:
        """:param without: server that is about to go"""
        entries = {
            uuid: one
            for uuid, one in self.list_entries().items()
            if uuid != without
        }
        return ownership.build(tree, self._writer.machine, entries)

    def _list_others(self, entry: assignment.Entry) -> list[assignment.Entry]:
        """Return the other servers with a place in the shared pool."""
        return shared_pool.list_servers(
            self.list_entries(), without=entry.consumer_uuid
        )

    def _check_cpus(
        self, tree: groups.Tree, entry: assignment.Entry, cpus: frozenset[int]
    ) -> None:
        for name, group in sorted(tree.groups.items()):
            is_own = group.consumer_uuid == entry.consumer_uuid
            common = cpus & group.cpus
            # No server uses CPUs that are left in the shared pool's group.
            if common and not is_own and name != groups.SHARED:
                raise refusals.make_busy(
                    self.host,
                    entry.consumer_uuid,
                    entry.assignments,
                    f'CPUs {bitmask.format_list(common)} of the server are in '
                    f'the control group {name}, which this enforcer does not '
                    'change',
                )

    # -- refusing ------------------------------------------------------

    @contextlib.contextmanager
    def _translated(self, entry: assignment.Entry | None) -> Iterator[None]:
        try:
            yield
        except errors.ResctrlError as err:
            if entry is not None and isinstance(err, _USED_UP):
                assignments = entry.assignments
                raise refusals.make_busy(
                    self.host,
                    entry.consumer_uuid,
                    classes.pick(assignments, classes.CLOS) or assignments,
                    f'other software on the host uses this resource: {err}',
                ) from err
            raise self._make_failed(
                entry.consumer_uuid if entry else '', str(err)
            ) from err

    def _make_failed(
        self, consumer_uuid: str, reason: str
    ) -> exception.EnforcementFailed:
        return exception.EnforcementFailed(
            host=self.host,
            enforcer='resctrl',
            consumer_uuid=consumer_uuid,
            reason=reason,
        )


def _make_absent(reason: str) -> errors.NotApplied:
    return errors.NotApplied(action='find its processes', reason=reason)
