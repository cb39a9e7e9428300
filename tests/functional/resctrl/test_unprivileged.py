# SPDX-License-Identifier: Apache-2.0

"""A host that runs as an ordinary user, with the real helper of privsep.

The mount has the kernel's modes, and Linux checks them. The helper is forked
and not started by sudo; from there on it is the same: root with what the
context keeps of the capabilities.
"""

from collections.abc import Callable
import errno
import importlib
import os
import subprocess
import traceback
from typing import Any

import fixtures
from oslo_config import cfg
from oslo_privsep import capabilities
from oslo_privsep import priv_context
from oslo_utils.fixture import uuidsentinel

from nova_ext_resources.drivers.rdt import classes
from nova_ext_resources.drivers.resctrl.kernel import groups
from nova_ext_resources.drivers.resctrl.kernel import mon_groups
from nova_ext_resources.drivers.resctrl.kernel import privsep
from tests.functional.resctrl import mounting

SERVER = uuidsentinel.server

#: Of a user that has nothing (nobody, in most systems).
USER = 65534

_SYSTEM = 'nova_ext_resources.drivers.resctrl.kernel.system'


class UnprivilegedTest(mounting.MountedTestCase):
    def setUp(self) -> None:
        if os.getuid():
            self.skipTest('root only: it starts the helper')
        super().setUp()
        # Others may not look into a temporary folder otherwise.
        self.path: str = self.machine.file_system.root
        os.chmod(os.path.dirname(self.path), 0o755)
        self.useFixture(
            fixtures.MonkeyPatch(f'{_SYSTEM}._TYPE', 'fuse.resctrl')
        )
        os.chown(os.path.dirname(self.ledger_path), USER, USER)

    def run_as_user(self, work: Callable[[], Any], **options: Any) -> str:
        """Do it in another process; return what went wrong there.

        :param options: of the helper
        """
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            child = os.getpid()
            try:
                # Its capabilities are among the global options, which other
                # tests reset.
                importlib.reload(privsep)
                for name, value in options.items():
                    cfg.CONF.set_override(
                        name, value, privsep.context.cfg_section
                    )
                privsep.context.start(priv_context.Method.FORK)
                become(USER)
                work()
            except BaseException:
                # The helper is below here as well, when its socket is gone.
                if os.getpid() == child:
                    os.write(writing, traceback.format_exc().encode())
            finally:
                # The mount and all other fixtures are the test's.
                os._exit(0)
        os.close(writing)
        with open(reading) as stream:
            said = stream.read()
        os.waitpid(pid, 0)
        return said

    def test_a_server_comes_and_goes(self) -> None:
        def work() -> None:
            host = self.make_resctrl_host()
            self.start(host, SERVER, 2, cpus=frozenset({1}))
            self.assertIn(SERVER, self.list_ours())
            self.assert_agreement(host)
            host.release(SERVER)

        self.assertEqual('', self.run_as_user(work))
        self.assertEqual({}, self.list_ours())

    def test_a_server_comes_and_goes_in_the_shared_pool(self) -> None:
        def work() -> None:
            self.host = self.make_resctrl_host(shared_ways=2, shared_servers=4)
            self.start_with(
                SERVER, {'L3_0': {classes.SHARED: 1}}, cpus=frozenset({1})
            )
            self.assertEqual({'shared'}, set(self.list_ours()))
            self.host.release(SERVER)

        self.assertEqual('', self.run_as_user(work))
        self.assertEqual({}, self.list_ours())

    def test_a_server_is_monitored(self) -> None:
        def work() -> None:
            made = mon_groups.MonGroups(self.machine.file_system)
            tid = self.kernel.start_task()
            for parent in (groups.DEFAULT, groups.SHARED):
                if parent:
                    self.machine.file_system.mkdir(parent)
                    self.machine.file_system.assign(f'{parent}/tasks', [tid])
                group = mon_groups.MonGroup(
                    parent=parent, consumer_uuid=SERVER
                )
                made.make(group)
                made.join(group, [tid])
                self.assertEqual(
                    f'{tid}\n',
                    self.machine.file_system.read(f'{group.path}/tasks'),
                )
                made.remove(group)

        self.assertEqual('', self.run_as_user(work))

    def test_nothing_is_offered_without_the_capability(self) -> None:
        def work() -> None:
            host = self.make_resctrl_host()
            self.assertEqual((), host.found.providers)
            self.assertIn('CAP_DAC_OVERRIDE', host.found.failures['resctrl'])

        self.assertEqual('', self.run_as_user(work, capabilities=[]))

    def test_groups_of_others_cannot_be_changed(self) -> None:
        self.kernel.add_group('db', 'L3:0=400;1=400\n')
        before = self.kernel.list_groups()

        def work() -> None:
            files = self.machine.file_system
            for call, path, *arguments in (
                (files.write, 'db/schemata', 'L3:0=1\n'),
                (files.rmdir, 'db'),
                (files.mkdir, 'web'),
            ):
                self.assertRaises(PermissionError, call, path, *arguments)

        self.assertEqual('', self.run_as_user(work))
        self.assertEqual(before, self.kernel.list_groups())

    def test_no_helper_is_asked_to_write_to_a_read_only_mount(self) -> None:
        subprocess.run(
            ['mount', '-o', 'remount,bind,ro', self.path], check=True
        )

        # As root, which needs no helper and may have none.
        err = self.assertRaises(
            OSError, self.machine.file_system.mkdir, 'nova-1'
        )

        self.assertEqual(errno.EROFS, err.errno)


def become(user: int) -> None:
    """Be an ordinary user from now on.

    One that can read everything: this Python may be below /root.
    """
    reads = [capabilities.CAP_DAC_READ_SEARCH]
    os.setgroups([])
    os.setgid(user)
    capabilities.set_keepcaps(True)
    os.setuid(user)
    capabilities.drop_all_caps_except(reads, reads, [])
