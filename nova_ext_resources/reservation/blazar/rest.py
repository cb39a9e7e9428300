# SPDX-License-Identifier: Apache-2.0

"""The extension ``/v1/extended`` of Blazar's API.

It needs no trust in keystone, and works with application credentials. Blazar
mounts it if its entry point has the name of the plugin. It asks the plugin in
blazar-manager, which knows the hosts.
"""

from collections.abc import Mapping
import functools
from typing import Any

from blazar.api.v1 import utils as api_utils
from blazar import context
from blazar import exceptions
from blazar import manager
from blazar.policies import base
from blazar import policy
from blazar.utils import service
from oslo_policy import policy as oslo_policy

from nova_ext_resources.reservation.blazar import body
from nova_ext_resources.reservation.blazar import flag
from nova_ext_resources.reservation.blazar import options

rest = api_utils.Rest('extended', __name__, url_prefix='/v1/extended')
rest.before_request(body.check)

_READ, _WRITE = base.PROJECT_READER_OR_ADMIN, base.PROJECT_MEMBER_OR_ADMIN

#: Action -> its rule, what it is, and where it is asked for.
POLICIES = (
    ('get', _READ, 'Show and list reservations.', 'GET', '/reservations'),
    ('post', _WRITE, 'Make a reservation.', 'POST', '/reservations'),
    ('put', _WRITE, 'Change a reservation.', 'PUT', '/reservations/{id}'),
    ('delete', _WRITE, 'Cancel one.', 'DELETE', '/reservations/{id}'),
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
        'Take one back.',
        'DELETE',
        '/capacity/changes/{name}',
    ),
    (
        'capacity_changes_force',
        base.RULE_ADMIN,
        'Move and degrade reservations of any project by it.',
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
        'Show and list who is told of reservations.',
        'GET',
        '/subscriptions',
    ),
    (
        'subscriptions_post',
        _WRITE,
        'Have a URL told of reservations of the project.',
        'POST',
        '/subscriptions',
    ),
    (
        'subscriptions_delete',
        _WRITE,
        'Have it told no more.',
        'DELETE',
        '/subscriptions/{id}',
    ),
    (
        'subscriptions_all',
        base.RULE_ADMIN,
        'Have it told of all projects, hosts and capacity.',
        'POST',
        '/subscriptions',
    ),
)


def get_rest() -> Any:
    """Return what Blazar mounts, and make the policies known."""
    policy.init()
    # Blazar has no other way to add to its policies.
    known = policy._ENFORCER.registered_rules
    policy._ENFORCER.register_defaults(
        one for one in list_policies() if one.name not in known
    )
    return rest


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


@rest.get('/reservations', query=True)
def list_reservations(_req: object, query: Mapping[str, str]) -> Any:
    """List reservations, of a window if one is named."""
    _authorise('get')
    wanted = {name: one for name, one in query.items() if name != 'all'}
    found = _ask(
        'list_reservations',
        query=wanted,
        project=_find_project(is_all=_read_flag(query, 'all')),
        has_hosts=_may('hosts'),
    )
    return api_utils.render(reservations=found)


@rest.post('/reservations')
def create_reservation(_req: object, data: Mapping[str, Any]) -> Any:
    """Reserve what an order asks for."""
    _authorise('post')
    _check_priority(data)
    caller = context.current()
    found = _ask(
        'create_order',
        order=data,
        project=caller.project_id,
        user=caller.user_id,
    )
    return api_utils.render(reservation=found)


@rest.get('/reservations/<reservation_id>')
def show_reservation(_req: object, reservation_id: str) -> Any:
    """Show one, with what happened to it."""
    _authorise('get')
    found = _ask(
        'get_reservation',
        reservation_id=reservation_id,
        project=_find_project(),
        has_hosts=_may('hosts'),
    )
    return api_utils.render(reservation=found)


@rest.put('/reservations/<reservation_id>')
def update_reservation(
    _req: object, reservation_id: str, data: Mapping[str, Any]
) -> Any:
    """Plan one anew."""
    _authorise('put')
    _check_priority(data)
    found = _ask(
        'change_order',
        reservation_id=reservation_id,
        changes=data,
        user=context.current().user_id,
        project=_find_project(),
    )
    return api_utils.render(reservation=found)


@rest.delete('/reservations/<reservation_id>')
def cancel_reservation(_req: object, reservation_id: str) -> Any:
    """Release one."""
    _authorise('delete')
    _ask(
        'cancel_order',
        reservation_id=reservation_id,
        user=context.current().user_id,
        project=_find_project(),
    )
    return api_utils.render()


@rest.get('/capacity/amounts', query=True)
def list_amounts(_req: object, query: Mapping[str, str]) -> Any:
    """Show how much there is of each class in each zone, over time."""
    _authorise('amounts')
    return api_utils.render(capacity=_ask('list_amounts', query=query))


@rest.get('/capacity/servers', query=True)
def list_fits(_req: object, query: Mapping[str, str]) -> Any:
    """Show how many servers of a flavor fit, over time."""
    _authorise('fits')
    return api_utils.render(capacity=_ask('list_fits', query=query))


@rest.get('/capacity/changes', query=True)
def list_capacity_changes(_req: object, query: Mapping[str, str]) -> Any:
    """List what is planned: maintenance, upgrades and cuts of capacity."""
    _authorise('capacity_changes_get')
    is_all = _read_flag(query, 'all')
    found = _ask('list_capacity_changes', has_ended=is_all)
    return api_utils.render(changes=found)


@rest.post('/capacity/changes')
def create_capacity_change(_req: object, data: Mapping[str, Any]) -> Any:
    """Plan one."""
    _authorise('capacity_changes_post')
    is_forced = _read_flag(data, 'force')
    if is_forced:
        _authorise('capacity_changes_force')
    found = _ask(
        'create_capacity_change',
        plan={name: one for name, one in data.items() if name != 'force'},
        user=context.current().user_id,
        is_forced=is_forced,
    )
    return api_utils.render(change=found)


@rest.get('/capacity/changes/<name>')
def show_capacity_change(_req: object, name: str) -> Any:
    """Show one."""
    _authorise('capacity_changes_get')
    return api_utils.render(change=_ask('get_capacity_change', change_id=name))


@rest.route(
    '/capacity/changes/<name>',
    methods=['DELETE'],
    status_code=200,
    query=True,
)
def delete_capacity_change(
    _req: object, name: str, query: Mapping[str, str]
) -> Any:
    """Take one back, and say what became of reservations."""
    _authorise('capacity_changes_delete')
    is_forced = _read_flag(query, 'force')
    if is_forced:
        _authorise('capacity_changes_force')
    found = _ask(
        'delete_capacity_change',
        change_id=name,
        user=context.current().user_id,
        is_forced=is_forced,
    )
    return api_utils.render(change=found)


@rest.get('/subscriptions', query=True)
def list_subscriptions(_req: object, query: Mapping[str, str]) -> Any:
    """List who is told of what; of all projects if that is asked for."""
    _authorise('subscriptions_get')
    project = _find_subscriber(is_all='all' in query)
    found = _ask('list_subscriptions', project=project)
    return api_utils.render(subscriptions=found)


@rest.post('/subscriptions')
def create_subscription(_req: object, data: Mapping[str, Any]) -> Any:
    """Have a URL told of what happens from now on."""
    _authorise('subscriptions_post')
    document = {**data}
    is_all = bool(document.pop('all_projects', False))
    if is_all:
        _authorise('subscriptions_all')
    found = _ask(
        'create_subscription',
        document=document,
        project=context.current().project_id,
        is_all=is_all,
    )
    return api_utils.render(subscription=found)


@rest.get('/subscriptions/<subscription_id>')
def show_subscription(_req: object, subscription_id: str) -> Any:
    """Show one, and how it goes."""
    _authorise('subscriptions_get')
    found = _ask(
        'get_subscription',
        subscription_id=subscription_id,
        project=_find_subscriber(),
    )
    return api_utils.render(subscription=found)


@rest.delete('/subscriptions/<subscription_id>')
def delete_subscription(_req: object, subscription_id: str) -> Any:
    """Tell it no more."""
    _authorise('subscriptions_delete')
    _ask(
        'delete_subscription',
        subscription_id=subscription_id,
        project=_find_subscriber(),
    )
    return api_utils.render()


@functools.cache
def _make_client() -> Any:
    return service.RPCClient(manager.get_target())


def _ask(method: str, **arguments: Any) -> Any:
    return _make_client().call(
        f'{options.RESOURCE_TYPE}:{method}', **arguments
    )


def _read_flag(found: Mapping[str, Any], name: str) -> bool:
    """Return whether a word of a query, or of a document, is set.

    :raises InvalidInput: it cannot be told
    """
    try:
        return flag.read(found, name)
    except ValueError as err:
        raise exceptions.InvalidInput(str(err)) from err


def _may(action: str) -> bool:
    return bool(_enforce(action, do_raise=False))


def _authorise(action: str) -> None:
    """Check that the caller may do something.

    :raises PolicyNotAuthorized: not by the policies
    """
    _enforce(action, do_raise=True)


def _enforce(action: str, *, do_raise: bool) -> Any:
    caller = context.current()
    target = {'project_id': caller.project_id, 'user_id': caller.user_id}
    return policy.enforce(
        caller, f'blazar:extended:{action}', target, do_raise=do_raise
    )


def _find_subscriber(*, is_all: bool = True) -> str | None:
    """Return the project whose subscriptions are meant, None for all.

    :param is_all: whether those of all are asked for, by who may
    """
    if is_all and _may('subscriptions_all'):
        return None
    # Not '': that is operators.
    return context.current().project_id or 'none'


def _find_project(*, is_all: bool = True) -> str | None:
    """Return the project whose reservations are meant, None for all.

    :param is_all: whether those of all are asked for, by who may
    """
    if is_all and _may('all_projects'):
        return None
    project: str = context.current().project_id
    return project


def _check_priority(data: Mapping[str, Any]) -> None:
    """Check that the caller may ask for a priority.

    :raises PolicyNotAuthorized: not by the policies
    """
    priority = data.get('priority', 0)
    if not isinstance(priority, int) or priority > 0:
        _authorise('priority')
