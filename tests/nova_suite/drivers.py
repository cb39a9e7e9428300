# SPDX-License-Identifier: Apache-2.0

"""Puts this package below Nova's tests, where Nova loads its driver."""

from collections.abc import Iterable
import functools
import os
import pathlib
import sys
import types
from typing import Any

import fixtures
import nova.test
from nova.tests.functional import fixtures as func_fixtures
from nova.virt import driver
from nova.virt.libvirt import driver as nova_libvirt
from oslo_utils import importutils

from nova_ext_resources.conf import reader
from nova_ext_resources.virt.driver import libvirt
from nova_ext_resources.virt.driver import live_migration
from nova_ext_resources.virt.driver import mixin
from nova_ext_resources.virt.driver import moves
from tests.functional import shared
from tests.functional.shared import databases
from tests.functional.shared import garbage
from tests.functional.shared import patience
from tests.functional.shared import workers
from tests.nova_suite import skips

#: What each host writes; placement needs no login here.
OPTIONS = """
[ext_resources]
inventory_providers = {plugins}
ledger_path = {folder}/{host}.sqlite
[ext_resources_static]
definitions_file = {folder}/definitions.yaml
[ext_resources_placement]
auth_type = admin_token
endpoint = {placement}
token = admin
endpoint_override = {placement}
"""

DEFINITIONS = """
resources:
  - name: CUSTOM_LICENSE
    units: licenses
    description: Licenses of this host.
    inventory: {total: 8}
"""

#: Where no test has a placement.
_NOWHERE = 'http://127.0.0.1:9/placement'


class _Site(fixtures.Fixture):
    """The files of all hosts of one test; stops what they have started.

    :param plugins: which inventory providers are enabled
    :ivar placement: address of the placement of the test
    """

    current: '_Site'

    def __init__(self, plugins: str) -> None:
        super().__init__()
        self._plugins = plugins

    def _setUp(self) -> None:
        folder = self.useFixture(fixtures.TempDir()).path
        self.folder = pathlib.Path(folder)
        self.placement = _NOWHERE
        self.services: list[Any] = []
        (self.folder / 'definitions.yaml').write_text(DEFINITIONS)
        self.addCleanup(self._stop)
        _Site.current = self

    def _stop(self) -> None:
        for one in self.services:
            one.stop()

    def read_conf(self, host: str) -> Any:
        # Nova stops a service in a thread, and starts the next one meanwhile,
        # which in two processes would wait for the ledger.
        for one in self.services:
            if one.host.host == host:
                one.stop()
        path = self.folder / f'{host}.conf'
        path.write_text(
            OPTIONS.format(
                folder=self.folder,
                host=host,
                placement=self.placement,
                plugins=self._plugins,
            )
        )
        return reader.read_conf([str(path)], (), host)


@functools.cache
def mix(original: type[driver.ComputeDriver]) -> type[driver.ComputeDriver]:
    """Return a driver of Nova, or of its tests, with our part before it."""
    bases: Iterable[type] = (
        live_migration.LiveMigrationsMixin,
        moves.MovesMixin,
    )
    if issubclass(original, nova_libvirt.LibvirtDriver):
        bases = (libvirt.LibvirtDriver,)
    return type(original.__name__, (*bases, original), {})


def install(mode: skips.Mode) -> None:
    """Replace Nova's drivers in this process, for good."""
    shared.install()
    _wrap_set_up(mode)
    if mode == skips.Mode.ALONE:
        return
    _replace(driver, 'importutils', types.SimpleNamespace(import_object=_make))
    _replace(
        mixin.ExtResourcesMixin,
        '_read_conf',
        staticmethod(lambda host: _Site.current.read_conf(host)),
    )
    _notice(func_fixtures.PlacementFixture, 'setUp', _note_placement)
    _notice(func_fixtures.PlacementApiClient, 'get', _hide_own)
    _notice(mixin.ExtResourcesMixin, '_make_service', _note_service)


def _replace(owner: Any, name: str, value: Any) -> None:
    """Replace an attribute for good: each test ends all patches of mock."""
    setattr(owner, name, value)


def _make(name: str, *args: Any) -> Any:
    """Do what ``importutils.import_object`` does, with our driver."""
    made = mix(importutils.import_class(name))(*args)
    assert isinstance(made, mixin.ExtResourcesMixin), made
    return made


def _wrap_set_up(mode: skips.Mode) -> None:
    """Have each test start as ours do, see :mod:`tests.functional.shared`."""
    original = nova.test.TestCase.setUp

    def set_up(test: Any) -> None:
        garbage.collect_threads()
        test.useFixture(databases.SharedSqlite())
        patience.make_patient(test, '_wait_')
        # It looks for its files in a source tree; a wheel has them elsewhere.
        test.useFixture(
            fixtures.MonkeyPatch(
                'nova.conf.paths.state_path_def',
                lambda *parts: os.path.join(sys.prefix, *parts),
            )
        )
        original(test)
        test.useFixture(workers.WokenWorkers())
        if mode != skips.Mode.ALONE:
            is_counted = mode == skips.Mode.COUNTED
            test.useFixture(_Site('static' if is_counted else ''))

    nova.test.TestCase.setUp = set_up


def _notice(owner: type, name: str, note: Any) -> None:
    """Call something after a method, with its object and its result."""
    original = getattr(owner, name)

    @functools.wraps(original)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = original(self, *args, **kwargs)
        note(self, made)
        return made

    _replace(owner, name, wrapper)


def _note_placement(fixture: Any, _made: None) -> None:
    _Site.current.placement = fixture.endpoint


def _hide_own(_client: Any, response: Any) -> None:
    """Let a test that counts the providers of a host see those of Nova."""
    if 'resource_providers' in (response.body or ()):
        response.body['resource_providers'] = [
            one
            for one in response.body['resource_providers']
            if not one['name'].endswith('_STATIC')
        ]


def _note_service(_driver: Any, made: Any) -> None:
    _Site.current.services.append(made)
