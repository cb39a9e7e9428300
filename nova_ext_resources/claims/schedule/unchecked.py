# SPDX-License-Identifier: Apache-2.0

"""What nobody checks on a host without a driver of this package.

Its resources come from the agent or other software. Placement counts amounts
there; whatever else a flavor requires, nova-compute does not know.
"""

from collections.abc import Iterator

from nova_ext_resources import exception
from nova_ext_resources.objects import requirements


def find_unchecked(
    requirement: requirements.Requirement,
) -> tuple[exception.Shortfall, ...]:
    """Return what only a host with a driver can keep, sorted.

    What is preferred only is no promise, and left out.
    """
    return tuple(
        exception.Shortfall(
            resource_class=subject,
            requested=amount,
            reason=f'resource:{subject}:{name} is not checked on this host: '
            'its nova-compute has no driver of nova-ext-resources',
            is_permanent=True,
        )
        for subject, name, amount in sorted(_list(requirement))
    )


def _list(
    requirement: requirements.Requirement,
) -> Iterator[tuple[str, str, int]]:
    """Yield subject, key and amount of what is required beside amounts."""
    amounts = requirement.resources
    for resource_class, attributes in requirement.attributes.items():
        for name, value in attributes.items():
            if value != requirements.Affinity.PREFERRED:
                yield resource_class, name, amounts.get(resource_class, 0)
    for enforcer, wishes in requirement.enforcers.items():
        for name in wishes:
            yield enforcer, name, 1
