# SPDX-License-Identifier: Apache-2.0

"""The two kinds of plugins that touch a host.

An entry point's name is the value in the option that enables it, the
suffix of its option group ``[ext_resources_<name>]``, its folder below
``drivers/`` and its page in the documentation.
"""

import abc
from collections.abc import Callable, Iterator, Mapping, Sequence
import contextlib
from typing import ClassVar, TypeAlias

from oslo_config import cfg

from nova_ext_resources.claims import base
from nova_ext_resources import exception
from nova_ext_resources.facts import guest
from nova_ext_resources.objects import alarm
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import host_constraints
from nova_ext_resources.objects import host_provider
from nova_ext_resources.objects import pool
from nova_ext_resources.objects import resource
from nova_ext_resources.objects import tunable_units

#: Returns what all servers of the host hold, by uuid of their consumers,
#: without I/O. Not to be called by constructors: the host is not there yet.
EntriesReader: TypeAlias = Callable[[], Mapping[str, assignment.Entry]]


#: Returns the guests that have processes on this host now, by uuid of their
#: servers. Asks the hypervisor, for a limited time; None where it does not
#: answer. A driver without processes, as Nova's fake one, has no guests. Not
#: to be called by constructors either.
GuestsReader: TypeAlias = Callable[[], Mapping[str, guest.Guest] | None]

#: Writes what an enforcer has to know after a restart, into the ledger of the
#: host; replaces what it has written before. Raises LedgerError.
NoteWriter: TypeAlias = Callable[[str], object]


@contextlib.contextmanager
def discovering(plugin: str, *known: type[Exception]) -> Iterator[None]:
    """Report errors of what is done inside as those of a discovery.

    :param known: all errors that the host may answer with
    :raises DiscoveryFailed: there was one
    """
    try:
        yield
    except known as err:
        reason = str(err)
        raise exception.DiscoveryFailed(plugin=plugin, reason=reason) from err


class InventoryProvider(abc.ABC):
    """Finds resources of the host. Only reads.

    :param options: of the plugin's own group
    :param entries: reads what servers hold; without one they hold nothing
    """

    #: Options of the plugin's own group.
    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = ()

    #: Group -> options of Nova that the plugin reads. The constructor of one
    #: that names some takes them as ``nova``, group -> its options.
    NOVA_OPTIONS: ClassVar[Mapping[str, tuple[cfg.Opt, ...]]] = {}

    #: Plugins, of either kind, that manage the same part of the host.
    EXCLUDES: ClassVar[frozenset[str]] = frozenset()

    def __init__(
        self,
        options: cfg.ConfigOpts.GroupAttr,
        host: str,
        entries: EntriesReader = dict,
    ) -> None:
        self.options = options
        self.host = host
        self.list_entries = entries

    @property
    def left_out(self) -> frozenset[str]:
        """Names of what discovery could not read the last time.

        They are resource classes as far as those are known, or any other
        words. While not empty, nothing is deleted from placement. Claims of
        those classes are refused, unless ``discover`` reports them all the
        same, as they were before.
        """
        return frozenset()

    @property
    def misconfigured(self) -> frozenset[str]:
        """Those of :attr:`left_out` that are wrong in the plugin's own files.

        The others may come back without an operator.
        """
        return frozenset()

    @property
    def constraints(self) -> Mapping[str, host_constraints.ClassConstraints]:
        """Return what this host can never do, by resource class.

        As the last ``discover`` has found it. No I/O. Hosts refuse claims by
        it, and publish it, so that the scheduler refuses the same.
        """
        return {}

    @property
    def pools(self) -> tuple[pool.SharedPool, ...]:
        """Return pools that belong to no host, and that this one reaches.

        As the last ``discover`` has found them. No I/O. The host publishes
        them, and counts nothing of them.
        """
        return ()

    @property
    def nodes(self) -> tuple[host_provider.BareMetalNode, ...]:
        """Return bare-metal nodes of ironic, with what they have.

        As the last ``discover`` has found them. No I/O. Each is a compute
        node of its own. This host publishes what they have, placement alone
        counts it.
        """
        return ()

    @property
    def problems(self) -> tuple[alarm.Problem, ...]:
        """Return what is wrong with what the last ``discover`` has found.

        No I/O.
        """
        return ()

    #: What the traits of :attr:`node_traits` begin with, that no other plugin
    #: reports; '' for none. Those that ``discover`` no longer finds go, also
    #: while another plugin has not read the host.
    NODE_TRAITS_PREFIX: ClassVar[str] = ''

    @property
    def node_traits(self) -> frozenset[str]:
        """Return traits of the compute node itself, not of a provider below.

        As the last ``discover`` has found them. No I/O. They begin with
        ``CUSTOM_``: Nova knows those that do not, and removes them. Nova's
        driver reports them with its next update of the compute node. A
        flavor requests them outside of any request group.
        """
        return frozenset()

    @abc.abstractmethod
    def definitions(self) -> tuple[resource.ResourceDefinition, ...]:
        """Describe every resource that ``discover`` may report."""

    @abc.abstractmethod
    def discover(self) -> tuple[host_provider.HostProvider, ...]:
        """Report what the host has now, parents before children.

        :raises DiscoveryFailed: nothing can be reported this time; the last
            report stays valid
        """

    def discover_without(
        self, other: str
    ) -> tuple[host_provider.HostProvider, ...]:
        """Report what the host will have when another plugin has left it.

        :param other: manages the same part of the host
        :raises DiscoveryFailed: nothing can be reported
        """
        return self.discover()

    def find_remains(self, other: str) -> str:
        """Explain what another plugin keeps here, and how to remove it.

        It is what that plugin keeps although nothing is applied by it. Does
        I/O.

        :return: sentences for the operator; '' when nothing is left
        :raises DiscoveryFailed: the host cannot be read
        """
        return ''


class Enforcer(base.RenamedMethods, abc.ABC):
    """Applies assignments on the host. Every call is idempotent.

    :param options: of the plugin's own group
    :param entries: reads what servers hold; without one they hold nothing
    :param guests: reads which servers run; without one that is unknown
    """

    RENAMED: ClassVar[Mapping[str, str]] = {
        'recognize': 'recover_units',
        'find_obstacle': 'find_host_problem',
        'find_fault': 'find_entry_problem',
    }

    OPTIONS: ClassVar[tuple[cfg.Opt, ...]] = ()

    #: Key of ``resource:<enforcer>:KEY`` -> a regular expression that its
    #: whole value must match.
    EXTRA_SPECS: ClassVar[Mapping[str, str]] = {}

    #: Plugins, of either kind, that manage the same part of the host.
    EXCLUDES: ClassVar[frozenset[str]] = frozenset()

    #: Resource classes that it applies; None stands for any.
    RESOURCE_CLASSES: ClassVar[frozenset[str] | None] = frozenset()

    #: Whether it chooses the units of an assignment itself, whatever was
    #: claimed. Then the host runs all enforcers of a server at its claim, and
    #: what is claimed and what is applied are the same from there on.
    CHOOSES_UNITS: ClassVar[bool] = False

    #: Whether it can apply and release nothing for CPUs that are offline.
    NEEDS_ONLINE_CPUS: ClassVar[bool] = False

    def __init__(
        self,
        options: cfg.ConfigOpts.GroupAttr,
        host: str,
        entries: EntriesReader = dict,
        guests: GuestsReader = dict,
    ) -> None:
        self.options = options
        self.host = host
        self.list_entries = entries
        self.list_guests = guests

    def restore(self, note: str, write: NoteWriter) -> None:
        """Take over a note of the process before, before all else.

        :param note: what it has written last, '' for nothing
        """
        return

    def serves(self, resource_class: str) -> bool:
        """Return whether it applies assignments of a resource class."""
        classes = self.RESOURCE_CLASSES
        return classes is None or resource_class in classes

    @property
    def constraints(self) -> Mapping[str, host_constraints.ClassConstraints]:
        """Return what this host can never do, by resource class.

        Always the same. No I/O. Hosts refuse claims by it, and publish it,
        so that the scheduler refuses the same.
        """
        return {}

    def check_ready(self) -> None:
        """Make sure that anything can be applied on this host. Does I/O.

        Asked whenever the host was discovered, before it offers what this
        enforcer applies. One that has to change the host to find out changes
        it back, and remembers the answer.

        :raises EnforcementFailed: no server could get anything
        """
        return

    def find_host_problem(self) -> str:
        """Return what keeps it from applying anything, and what to do, or ''.

        As far as reading shows. Does I/O and changes nothing, so that it may
        be asked while nova-compute runs.
        """
        return ''

    @abc.abstractmethod
    def apply(
        self, entry: assignment.Entry
    ) -> tuple[assignment.Assignment, ...]:
        """Apply an entry; return the assignments as they really are.

        The host may choose other units than the tracker did; they are in
        what this returns, for the ledger.

        :raises EnforcementFailed: nothing is applied
        """

    @abc.abstractmethod
    def release(self, entry: assignment.Entry) -> None:
        """Undo ``apply``; to have nothing applied is a success.

        An entry without assignments stands for a server of which only the
        uuid is known.

        :raises EnforcementFailed: it may still be applied, or may be applied
            later
        """

    @abc.abstractmethod
    def list_applied(self) -> frozenset[str] | None:
        """Return the consumer uuids of all that this package has applied.

        None: the host keeps nothing that could be read.

        :raises EnforcementFailed: it cannot be read now
        """

    def list_pci_functions(self, entry: assignment.Entry) -> tuple[str, ...]:
        """Return the PCI functions that the guest of a server must have.

        Their addresses. No I/O. The libvirt driver writes them into the
        domain of the guest, after it has called :meth:`apply`, which must
        refuse what is not there. A server with any is not migrated live.
        """
        return ()

    def list_in_guests(self) -> frozenset[str]:
        """Return the servers whose guests have what it hands to guests.

        It is asked, besides :meth:`list_applied`, when the ledger has lost
        servers: for what the hypervisor knows, and the host does not keep.
        Does I/O.

        :raises EnforcementFailed: that is unknown now
        """
        return frozenset()

    def recover_units(
        self, entry: assignment.Entry
    ) -> tuple[assignment.Assignment, ...] | None:
        """Return the assignments of an entry with the units that are applied.

        Its server is one that ``list_applied`` or ``list_in_guests`` has just
        returned, and the ledger has lost it: amounts and providers are those
        of placement, and the units are missing. No I/O: decides on what that
        method read.

        None: they cannot be told for certain, such as where they are not
        what the server should have. Then an operator has to act.
        """
        return None

    def is_applied(self, entry: assignment.Entry) -> bool:
        """Return whether an entry is applied as it should be.

        It is one that ``list_applied`` has just returned. No I/O: decides on
        what ``list_applied`` read. False lets repair apply it again.
        """
        return True

    def find_entry_problem(self, entry: assignment.Entry) -> str:
        """Return what is missing although ``apply`` succeeded, or ''.

        A server that runs keeps what it has when other software takes its
        place; the text is for the operator. No I/O: decides on what was last
        applied, or read.
        """
        return ''

    def list_problems(self) -> tuple[alarm.Problem, ...]:
        """Return what is wrong with the backend, though all is applied.

        No I/O: decides on what was last applied, or read.
        """
        return ()

    def list_tunables(self) -> tuple[tunable_units.Tunable, ...]:
        """Return what may be moved between servers while they run.

        No I/O: decides on what was last applied, or read.
        """
        return ()

    def set_tunables(self, tunables: Sequence[tunable_units.Tunable]) -> None:
        """Change what servers have of one class of one provider.

        Those of the same class and provider that are not named keep theirs.

        :raises EnforcementFailed: an amount is outside of what was
            allocated, or there is not as much in all, and nothing is
            changed; or the kernel refused one, and the next read shows how
            far it got
        """
        if tunables:
            raise NotImplementedError(f'{type(self).__name__} has no tunables')
