# SPDX-License-Identifier: Apache-2.0

"""libvirt's own control of caches and bandwidth, which must not fight ours.

For ``<cachetune>`` and ``<memorytune>`` in ``<cputune>`` libvirt makes groups
of resctrl and puts the vCPUs of a guest into them
(https://libvirt.org/formatdomain.html#cpu-tuning). A thread is in one group
only: that of whoever wrote last. Nova writes neither; a patched Nova may.
"""

from xml.etree import ElementTree

from nova_ext_resources import exception

_ELEMENTS = ('cachetune', 'memorytune')


def find(xml: str) -> str:
    """Return which elements a domain has, '' for none.

    :param xml: of the domain
    :raises ElementTree.ParseError: it is no XML
    """
    # Nova has written it.
    tree = ElementTree.fromstring(xml)  # noqa: S314
    found = [
        one for one in _ELEMENTS if tree.find(f'./cputune/{one}') is not None
    ]
    return ' and '.join(f'<{one}>' for one in found)


def check(xml: str, *, host: str, server_uuid: str) -> None:
    """Refuse a guest whose cache libvirt would control, too.

    :raises EnforcementFailed: it would
    """
    found = find(xml)
    if found:
        raise exception.EnforcementFailed(
            enforcer='libvirt',
            host=host,
            consumer_uuid=server_uuid,
            reason=f'the domain of the server has {found} in <cputune>, so '
            'libvirt moves the vCPUs out of the control group of this '
            'package. Remove the cause in Nova, or the resources of this '
            'package from its flavor',
        )
