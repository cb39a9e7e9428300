# SPDX-License-Identifier: Apache-2.0

"""Nova's API with its routes compiled once a process, and made once a test.

Nova has 420 routes, with a regular expression or two each: more than Python's
own cache of compiled ones holds. It makes the router with all routes for each
of the two versions of its API that it serves, with the same result. No router
outlives its test, because a route has a controller, which has clients of the
test's message bus. Of these 34 controllers make the same, with the API of the
computes: those of one router share it.
"""

import functools
import re
from typing import Any
from unittest import mock

import fixtures
from nova.api.openstack.compute import routes as nova_routes
from nova.compute import api as compute_api
from routes import route


class _Expressions:
    """What the library for routes needs of the module ``re``."""

    compile = staticmethod(functools.cache(re.compile))
    escape = staticmethod(re.escape)


def install() -> None:
    """Compile each regular expression of a route once."""
    route.re = _Expressions


def make_router() -> nova_routes.APIRouterV21:
    """Make a router with one API of the computes for all controllers."""
    share = functools.cache(compute_api.API)
    with mock.patch.object(compute_api, 'API', share):
        return nova_routes.APIRouterV21()


class OneRouter(fixtures.Fixture):
    """Has all that Nova's API serves in a test share one router."""

    def _setUp(self) -> None:
        make = functools.cache(make_router)

        def find(cls: Any, global_config: Any, **local_config: Any) -> Any:
            return make()

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.api.openstack.compute.routes.APIRouterV21.factory',
                find,
            )
        )
