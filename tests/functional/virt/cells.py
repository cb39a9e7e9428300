# SPDX-License-Identifier: Apache-2.0

"""Two hosts, each in a cell of its own, between which servers move."""

from collections.abc import Callable, Mapping
import dataclasses
import functools
import threading
from typing import Any, ClassVar

import fixtures
from nova import context as nova_context
from nova.policies import base as policies
from nova.policies import servers as server_policies

from nova_ext_resources.virt.driver import mixin
from tests.functional.virt import moving


class OwnCells(fixtures.Fixture):
    """What a host asks its conductor, the database of its cell answers.

    Without this, threads of each host read the default one.

    :param cells: host -> its ``nova.objects.CellMapping``
    """

    def __init__(self, cells: Mapping[str, Any]) -> None:
        self._cells = cells
        self._asking = threading.local()

    def _setUp(self) -> None:
        make_context = nova_context.get_admin_context
        make_compute = mixin.ExtResourcesMixin._make_nova_compute

        def make_targeted(*args: Any, **kwargs: Any) -> Any:
            context = make_context(*args, **kwargs)
            cell = getattr(self._asking, 'cell', None)
            if cell is not None:
                nova_context.set_target_cell(context, cell)
            return context

        def make_own(driver: Any, host: str) -> Any:
            made = make_compute(driver, host)
            return dataclasses.replace(
                made, **dict(self._list_questions(made, self._cells[host]))
            )

        self.useFixture(
            fixtures.MonkeyPatch(
                'nova.context.get_admin_context', make_targeted
            )
        )
        self.useFixture(
            fixtures.MonkeyPatch(
                'nova_ext_resources.virt.driver.mixin.ExtResourcesMixin.'
                '_make_nova_compute',
                make_own,
            )
        )

    def _list_questions(self, made: Any, cell: Any) -> Any:
        for field in dataclasses.fields(made):
            ask = getattr(made, field.name)
            if callable(ask):
                yield field.name, self._ask_in(cell, ask)

    def _ask_in(self, cell: Any, ask: Callable[..., Any]) -> Any:
        @functools.wraps(ask)
        def ask_there(*args: Any) -> Any:
            former = getattr(self._asking, 'cell', None)
            self._asking.cell = cell
            try:
                return ask(*args)
            finally:
                self._asking.cell = former

        return ask_there


class CellsTestCase(moving.MovesTestCase):
    """host1 is in cell1, and host2 in cell2; admins move servers between."""

    NUMBER_OF_CELLS = 2
    POWER_OFF = 'power_off'
    CELLS: ClassVar[Mapping[str, str]] = {'host1': 'cell1', 'host2': 'cell2'}

    def setUp(self) -> None:
        self._is_set = False
        super().setUp()

    def start_host(self, host: str, **settings: Any) -> Any:
        if not self._is_set:
            self._is_set = True
            self.useFixture(
                OwnCells(
                    {
                        name: self.cell_mappings[cell]
                        for name, cell in self.CELLS.items()
                    }
                )
            )
            self.policy.set_rules(
                {server_policies.CROSS_CELL_RESIZE: policies.RULE_ADMIN_API},
                overwrite=False,
            )
        return super().start_host(host, **settings)

    def _start_compute(self, host: str, cell_name: str | None = None) -> Any:
        return super()._start_compute(
            host, cell_name=cell_name or self.CELLS[host]
        )

    def wait_for_failure(self, server: Any) -> None:
        super().wait_for_failure(server)
        # Last, when the next cell has no record of the server any more.
        migration = self.find_migration(server).uuid
        self.wait_until(
            lambda: not self._get_allocations_by_server_uuid(migration)
        )
        # The conductor clears the server's task after that.
        self.assertTrue(
            self.list_reasons(
                server, 'conductor_migrate_server', 'migrate', 'resize'
            )
        )
