# SPDX-License-Identifier: Apache-2.0

"""The CPUs that the vCPUs of a domain are pinned to.

A resume and an unrescue start the domain that a guest had. After a move that
broke off, Nova has other CPUs for the server, and its resources are there.
"""

from xml.etree import ElementTree

from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from nova_ext_resources.objects import bitmask


def find_cpus(xml: str) -> frozenset[int]:
    """Return the host CPUs of all ``<vcpupin>``.

    :param xml: of the domain, as Nova has written it
    :raises ElementTree.ParseError: it is no XML
    """
    tree = ElementTree.fromstring(xml)  # noqa: S314
    return frozenset[int]().union(
        *(
            bitmask.parse_list(one.get('cpuset', ''))
            for one in tree.iterfind('./cputune/vcpupin')
        )
    )


def check(xml: str, entry: assignment.Entry, *, host: str) -> None:
    """Refuse a guest on other CPUs than those that its server has claimed.

    A server whose vCPUs float has claimed none.

    :raises EnforcementFailed: it would run where it has nothing
    """
    if entry.cpus is None or (cpus := find_cpus(xml)) <= entry.cpus:
        return
    former = bitmask.format_list(cpus)
    raise exception.EnforcementFailed(
        enforcer='libvirt',
        host=host,
        consumer_uuid=entry.server_uuid,
        reason=f'the domain of the server is pinned to CPUs {former}, but '
        f'Nova has CPUs {bitmask.format_list(entry.cpus)} for the server (for '
        'example after an interrupted move). Reboot the server hard',
    )
