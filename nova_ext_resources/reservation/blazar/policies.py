# SPDX-License-Identifier: Apache-2.0

"""Who may do what by the extension of Blazar's API."""

from typing import Any

from blazar import context
from blazar import exceptions
from blazar.policies import base
from blazar import policy
from oslo_policy import policy as oslo_policy

_READ, _WRITE = base.PROJECT_READER_OR_ADMIN, base.PROJECT_MEMBER_OR_ADMIN

#: Action -> its rule, what it is, and where it is asked for.
POLICIES = (
    ('get', _READ, 'Show and list reservations.', 'GET', '/reservations'),
    ('post', _WRITE, 'Make a reservation.', 'POST', '/reservations'),
    ('put', _WRITE, 'Change a reservation.', 'PUT', '/reservations/{id}'),
    (
        'delete',
        _WRITE,
        'Cancel a reservation.',
        'DELETE',
        '/reservations/{id}',
    ),
    (
        'fits',
        _READ,
        'Ask how many servers fit.',
        'GET',
        '/capacity/servers',
    ),
    (
        'amounts',
        base.RULE_ADMIN,
        'Ask for all amounts of the cloud.',
        'GET',
        '/capacity/amounts',
    ),
    (
        'capacity_changes_get',
        base.RULE_ADMIN,
        'Show and list planned changes of capacity.',
        'GET',
        '/capacity/changes',
    ),
    (
        'capacity_changes_post',
        base.RULE_ADMIN,
        'Plan a change of capacity.',
        'POST',
        '/capacity/changes',
    ),
    (
        'capacity_changes_delete',
        base.RULE_ADMIN,
        'Delete a planned change of capacity.',
        'DELETE',
        '/capacity/changes/{name}',
    ),
    (
        'capacity_changes_force',
        base.RULE_ADMIN,
        'Force a change of capacity that moves or degrades reservations of '
        'any project.',
        'POST',
        '/capacity/changes',
    ),
    (
        'all_projects',
        base.RULE_ADMIN,
        'See and change reservations of any project.',
        'GET',
        '/reservations',
    ),
    (
        'hosts',
        base.RULE_ADMIN,
        'See the names of hosts.',
        'GET',
        '/reservations',
    ),
    (
        'priority',
        base.RULE_ADMIN,
        'Ask for a priority above 0.',
        'POST',
        '/reservations',
    ),
    (
        'subscriptions_get',
        _WRITE,
        'Show and list subscriptions to events of reservations.',
        'GET',
        '/subscriptions',
    ),
    (
        'subscriptions_post',
        _WRITE,
        'Subscribe a URL to events of reservations of the project.',
        'POST',
        '/subscriptions',
    ),
    (
        'subscriptions_delete',
        _WRITE,
        'Delete a subscription.',
        'DELETE',
        '/subscriptions/{id}',
    ),
    (
        'subscriptions_all',
        base.RULE_ADMIN,
        'Subscribe a URL to events of all projects, hosts and capacity.',
        'POST',
        '/subscriptions',
    ),
    (
        'quotas_get',
        _READ,
        'Show the quotas and the limits of the project.',
        'GET',
        '/quotas',
    ),
    (
        'quotas_put',
        base.RULE_ADMIN,
        'Set quotas and limits of any project.',
        'PUT',
        '/quotas/{project}/{resource_class}',
    ),
    (
        'quotas_delete',
        base.RULE_ADMIN,
        'Delete quotas and limits of any project.',
        'DELETE',
        '/quotas/{project}/{resource_class}',
    ),
    (
        'quotas_all',
        base.RULE_ADMIN,
        'See quotas and limits of any project.',
        'GET',
        '/quotas',
    ),
)


def list_policies() -> list[Any]:
    """Return the policies, for Blazar and for oslopolicy-sample-generator."""
    return [
        oslo_policy.DocumentedRuleDefault(
            name=f'blazar:extended:{action}',
            check_str=rule,
            description=description,
            operations=[{'path': f'/v1/extended{path}', 'method': method}],
            scope_types=['project'],
        )
        for action, rule, description, method, path in POLICIES
    ]


def make_known() -> None:
    """Make the policies known to Blazar."""
    policy.init()
    # Blazar has no other way to add to its policies.
    known = policy._ENFORCER.registered_rules
    policy._ENFORCER.register_defaults(
        one for one in list_policies() if one.name not in known
    )


def may(action: str) -> bool:
    """Return whether the caller may do something."""
    return bool(_enforce(action, do_raise=False))


def authorise(action: str) -> None:
    """Check that the caller may do something.

    :raises NotAuthorized: its token is of no project
    :raises PolicyNotAuthorized: not by the policies
    """
    _check_project()
    _enforce(action, do_raise=True)


def _check_project() -> None:
    """Check that the caller has a project.

    Behind the API no project means all of them. The policies compare the
    project of the caller with itself, so that they allow a caller with none.

    :raises NotAuthorized: its token is of none
    """
    if not context.current().project_id:
        raise exceptions.NotAuthorized(
            'The token has no project: its scope may be a domain, the '
            'system, or nothing. Request a token with the scope of a '
            'project; an administrator sees all projects with a project '
            'token, too.'
        )


def _enforce(action: str, *, do_raise: bool) -> Any:
    caller = context.current()
    target = {'project_id': caller.project_id, 'user_id': caller.user_id}
    return policy.enforce(
        caller, f'blazar:extended:{action}', target, do_raise=do_raise
    )


def get_project() -> str:
    """Return the project of a caller that was authorised."""
    project: str = context.current().project_id
    return project
