# SPDX-License-Identifier: Apache-2.0

"""Runs commands as the ``openstack`` program does."""

from collections.abc import Iterator
import configparser
import contextlib
import datetime
import io
import logging
import os
import pathlib
import pkgutil
import shlex
from typing import Any

import fixtures
from osc_lib.command import commandmanager
from osc_lib import shell
from oslo_utils import fixture as oslo_fixture

from nova_ext_resources.reservation.site import loading
from tests import base
from tests.unit.reservation import sites

GROUP = 'openstack.extended.v1'

ROOT = pathlib.Path(__file__).parents[4]

#: Loggers of services that may run in this process. They log at any moment,
#: and a command has no part in it.
_SERVICES = ('nova', 'oslo_messaging', 'placement')


def list_commands() -> Iterator[tuple[str, Any]]:
    """Return the commands of this tree, whichever are installed."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / 'setup.cfg')
    for line in parser['entry_points'][GROUP].strip().splitlines():
        name, _equals, place = line.partition(' = ')
        yield name.replace('_', ' '), pkgutil.resolve_name(place)


@contextlib.contextmanager
def _muted(logger: logging.Logger) -> Iterator[None]:
    # Without any handler, logging would write to standard error itself.
    handler = logging.NullHandler()
    logger.addHandler(handler)
    try:
        with fixtures.MockPatchObject(logger, 'propagate', False):
            yield
    finally:
        logger.removeHandler(handler)


def run(arguments: list[str]) -> tuple[int, str, str]:
    """Run a command; return status, output and errors."""
    output, errors = io.StringIO(), io.StringIO()
    manager = commandmanager.CommandManager(GROUP)
    for name, command in list_commands():
        manager.add_command(name, command)
    app = shell.OpenStackShell(
        description='openstack',
        command_manager=manager,
        stdout=output,
        stderr=errors,
    )
    with contextlib.ExitStack() as stack:
        # argparse and the log write to the process's own.
        stack.enter_context(fixtures.MonkeyPatch('sys.stderr', errors))
        for name in _SERVICES:
            stack.enter_context(_muted(logging.getLogger(name)))
        try:
            status = app.run(arguments)
        except SystemExit as err:
            status = int(err.code or 0)
    return int(status), output.getvalue(), errors.getvalue()


class ShellTestCase(base.TestCase):
    """With a store of its own, in a cloud without services.

    :ivar site: the cloud
    :ivar folder: has nova.conf
    """

    def setUp(self) -> None:
        super().setUp()
        self.site = sites.make_site()
        self.patch(loading, 'Site', lambda _conf: self.site)
        self.clock = self.useFixture(
            oslo_fixture.TimeFixture(
                datetime.datetime.fromtimestamp(
                    sites.NOW, datetime.UTC
                ).replace(tzinfo=None)
            )
        )
        self.folder = self.make_folder()
        self.config = os.path.join(self.folder, 'nova.conf')
        pathlib.Path(self.config).write_text(
            f'[DEFAULT]\nstate_path = {self.folder}\n'
        )
        # No clouds.yaml and no credentials of whoever runs the tests.
        self.useFixture(fixtures.EnvironmentVariable('HOME', self.folder))
        for name in [one for one in os.environ if one.startswith('OS_')]:
            self.useFixture(fixtures.EnvironmentVariable(name))

    def run_command(self, line: str) -> tuple[int, str, str]:
        """Run a command on the store; return status, output and errors."""
        arguments = shlex.split(line)
        if '--config-file' not in arguments:
            arguments += ['--config-file', self.config]
        return run(arguments)

    def succeed(self, line: str) -> str:
        status, output, errors = self.run_command(line)
        self.assertEqual((0, ''), (status, errors), output)
        return output

    def fail_with(self, line: str) -> str:
        status, output, errors = self.run_command(line)
        self.assertNotEqual(0, status, output)
        self.assertNotIn('Traceback', errors)
        return errors
