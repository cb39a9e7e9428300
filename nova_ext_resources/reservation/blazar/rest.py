# SPDX-License-Identifier: Apache-2.0

"""The extension ``/v1/extended`` of Blazar's API.

It needs no trust in keystone, and works with application credentials. Blazar
mounts it if its entry point has the name of the plugin.
"""

from collections.abc import Mapping
from typing import Any

from blazar.api.v1 import utils as api_utils
from blazar import context

from nova_ext_resources.reservation.blazar import asking
from nova_ext_resources.reservation.blazar import policies
from nova_ext_resources.reservation.blazar import rest_quotas

#: Each module adds its requests to the same one.
rest = rest_quotas.rest


def get_rest() -> Any:
    """Return what Blazar mounts, and make the policies known."""
    policies.make_known()
    return rest


@rest.get('/reservations', query=True)
def list_reservations(_req: object, query: Mapping[str, str]) -> Any:
    """List reservations, of a window if one is named."""
    policies.authorise('get')
    wanted = {name: one for name, one in query.items() if name != 'all'}
    is_all = asking.read_flag(query, 'all')
    found = asking.ask(
        'list_reservations',
        query=wanted,
        project=_find_project('all_projects', is_all=is_all),
        has_hosts=policies.may('hosts'),
    )
    return api_utils.render(reservations=found)


@rest.post('/reservations')
def create_reservation(_req: object, data: Mapping[str, Any]) -> Any:
    """Reserve what an order asks for."""
    policies.authorise('post')
    _check_priority(data)
    caller = context.current()
    found = asking.ask(
        'create_order',
        order=data,
        project=caller.project_id,
        user=caller.user_id,
    )
    return api_utils.render(reservation=found)


@rest.get('/reservations/<reservation_id>')
def show_reservation(_req: object, reservation_id: str) -> Any:
    """Show one, with what happened to it."""
    policies.authorise('get')
    found = asking.ask(
        'get_reservation',
        reservation_id=reservation_id,
        project=_find_project('all_projects'),
        has_hosts=policies.may('hosts'),
    )
    return api_utils.render(reservation=found)


@rest.put('/reservations/<reservation_id>')
def update_reservation(
    _req: object, reservation_id: str, data: Mapping[str, Any]
) -> Any:
    """Plan one anew."""
    policies.authorise('put')
    _check_priority(data)
    found = asking.ask(
        'change_order',
        reservation_id=reservation_id,
        changes=data,
        user=context.current().user_id,
        project=_find_project('all_projects'),
    )
    return api_utils.render(reservation=found)


@rest.delete('/reservations/<reservation_id>')
def cancel_reservation(_req: object, reservation_id: str) -> Any:
    """Release one."""
    policies.authorise('delete')
    asking.ask(
        'cancel_order',
        reservation_id=reservation_id,
        user=context.current().user_id,
        project=_find_project('all_projects'),
    )
    return api_utils.render()


@rest.get('/capacity/amounts', query=True)
def list_amounts(_req: object, query: Mapping[str, str]) -> Any:
    """Show how much there is of each class in each zone, over time."""
    policies.authorise('amounts')
    return api_utils.render(capacity=asking.ask('list_amounts', query=query))


@rest.get('/capacity/servers', query=True)
def list_fits(_req: object, query: Mapping[str, str]) -> Any:
    """Show how many servers of a flavor fit, over time."""
    policies.authorise('fits')
    return api_utils.render(capacity=asking.ask('list_fits', query=query))


@rest.get('/capacity/changes', query=True)
def list_capacity_changes(_req: object, query: Mapping[str, str]) -> Any:
    """List what is planned: maintenance, upgrades and cuts of capacity."""
    policies.authorise('capacity_changes_get')
    is_all = asking.read_flag(query, 'all')
    found = asking.ask('list_capacity_changes', has_ended=is_all)
    return api_utils.render(changes=found)


@rest.post('/capacity/changes')
def create_capacity_change(_req: object, data: Mapping[str, Any]) -> Any:
    """Plan one."""
    policies.authorise('capacity_changes_post')
    is_forced = asking.read_flag(data, 'force')
    if is_forced:
        policies.authorise('capacity_changes_force')
    found = asking.ask(
        'create_capacity_change',
        plan={name: one for name, one in data.items() if name != 'force'},
        user=context.current().user_id,
        is_forced=is_forced,
    )
    return api_utils.render(change=found)


@rest.get('/capacity/changes/<name>')
def show_capacity_change(_req: object, name: str) -> Any:
    """Show one."""
    policies.authorise('capacity_changes_get')
    return api_utils.render(
        change=asking.ask('get_capacity_change', change_id=name)
    )


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
    policies.authorise('capacity_changes_delete')
    is_forced = asking.read_flag(query, 'force')
    if is_forced:
        policies.authorise('capacity_changes_force')
    found = asking.ask(
        'delete_capacity_change',
        change_id=name,
        user=context.current().user_id,
        is_forced=is_forced,
    )
    return api_utils.render(change=found)


@rest.get('/subscriptions', query=True)
def list_subscriptions(_req: object, query: Mapping[str, str]) -> Any:
    """List who is told of what; of all projects if that is asked for."""
    policies.authorise('subscriptions_get')
    is_all = asking.read_flag(query, 'all')
    project = _find_project('subscriptions_all', is_all=is_all)
    found = asking.ask('list_subscriptions', project=project)
    return api_utils.render(subscriptions=found)


@rest.post('/subscriptions')
def create_subscription(_req: object, data: Mapping[str, Any]) -> Any:
    """Have a URL told of what happens from now on."""
    policies.authorise('subscriptions_post')
    is_all = asking.read_flag(data, 'all_projects')
    if is_all:
        policies.authorise('subscriptions_all')
    found = asking.ask(
        'create_subscription',
        document={
            name: one for name, one in data.items() if name != 'all_projects'
        },
        project=context.current().project_id,
        is_all=is_all,
    )
    return api_utils.render(subscription=found)


@rest.get('/subscriptions/<subscription_id>')
def show_subscription(_req: object, subscription_id: str) -> Any:
    """Show one, and how it goes."""
    policies.authorise('subscriptions_get')
    found = asking.ask(
        'get_subscription',
        subscription_id=subscription_id,
        project=_find_project('subscriptions_all'),
    )
    return api_utils.render(subscription=found)


@rest.delete('/subscriptions/<subscription_id>')
def delete_subscription(_req: object, subscription_id: str) -> Any:
    """Tell it no more."""
    policies.authorise('subscriptions_delete')
    asking.ask(
        'delete_subscription',
        subscription_id=subscription_id,
        project=_find_project('subscriptions_all'),
    )
    return api_utils.render()


def _find_project(policy: str, *, is_all: bool = True) -> str | None:
    """Return the project of which something is asked for, None for all.

    :param policy: by which a caller may ask for what all projects have
    :param is_all: whether the caller does
    """
    if is_all and policies.may(policy):
        return None
    return policies.get_project()


def _check_priority(data: Mapping[str, Any]) -> None:
    """Check that the caller may ask for a priority.

    :raises PolicyNotAuthorized: not by the policies
    """
    priority = data.get('priority', 0)
    if not isinstance(priority, int) or priority > 0:
        policies.authorise('priority')
