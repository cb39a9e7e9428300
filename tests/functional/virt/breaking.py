# SPDX-License-Identifier: Apache-2.0

"""What stops a server on its way, or breaks its move."""

from collections.abc import Callable
import contextlib
import threading
from typing import Any

import fixtures
from nova.virt import fake as nova_fake

from nova_ext_resources import exception
from nova_ext_resources.objects import assignment
from tests.functional.virt import backends
from tests.functional.virt import base

State = assignment.State

LEDGER_IS_FULL = exception.LedgerError(path='x', reason='it is full')


class WaitingMove(fixtures.Fixture):
    """The source does not power a guest off before ``go``.

    :ivar is_killed: whether it never does
    """

    def __init__(self, method: str = 'migrate_disk_and_power_off') -> None:
        self._method = method

    def _setUp(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        self.is_killed = False
        self.addCleanup(self.go.set)

        def wait(*_args: Any, **_kwargs: Any) -> str:
            self.began.set()
            self.go.wait(base.SECONDS)
            if self.is_killed:
                raise base.Killed
            return ''

        self.useFixture(
            fixtures.MonkeyPatch(
                f'nova.virt.fake.FakeDriver.{self._method}', wait
            )
        )


class WaitingGuest(fixtures.Fixture):
    """Guests are not started before ``go``.

    :ivar began: set when one is about to be started
    """

    def _setUp(self) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        self.addCleanup(self.go.set)
        spawn: Callable[..., Any] = nova_fake.FakeDriver.spawn

        def wait(*args: Any, **kwargs: Any) -> None:
            self.began.set()
            self.go.wait(base.SECONDS)
            spawn(*args, **kwargs)

        self.useFixture(
            fixtures.MonkeyPatch('nova.virt.fake.FakeDriver.spawn', wait)
        )


class BreakingTestCase(backends.Static):
    """A server on host1, with two of six seats."""

    def setUp(self) -> None:
        super().setUp()
        self.small = self.make_own_flavor(2)
        self.large = self.make_own_flavor(4)
        self.server = self.boot(self.small, host='host1')
        self.uuid = self.server['id']

    def break_manager(
        self, host: str, method: str, error: BaseException
    ) -> None:
        """Let a method of a compute manager fail from now on."""

        def fail(*_args: Any, **_kwargs: Any) -> None:
            raise error

        self.useFixture(
            fixtures.MockPatchObject(self.services[host].manager, method, fail)
        )

    @contextlib.contextmanager
    def failing(
        self, part: str, method: str, error: BaseException | None = None
    ) -> Any:
        """Let a method of host1's manager, or of a part of it, fail."""
        subject = self.services['host1'].manager
        for name in part.split():
            subject = getattr(subject, name)

        def fail(*_args: Any, **_kwargs: Any) -> None:
            raise error or RuntimeError(f'{method} fails')

        with fixtures.MockPatchObject(subject, method, fail):
            yield

    def begin(self, flavor: str = '') -> None:
        if flavor:
            self.act(self.server, 'resize', flavorRef=flavor)
        else:
            self.act(self.server, 'migrate')

    def wait_for_error(self) -> Any:
        self._wait_for_migration_status(self.server, ['error'])
        # Nova takes its task away last; until then, nothing has ended.
        return self._wait_for_server_parameter(
            self.server, {'status': 'ERROR', 'OS-EXT-STS:task_state': None}
        )

    def fail_to_park(self, times: int) -> None:
        """Let host1 not keep what servers hold that are powered off."""
        host = self.get_host('host1')
        park, left = host.park, [LEDGER_IS_FULL] * times

        def fail(*args: Any, **options: Any) -> None:
            if left:
                raise left.pop()
            park(*args, **options)

        self.useFixture(fixtures.MockPatchObject(host, 'park', fail))

    def assert_only_on(self, host: str, state: State = State.APPLIED) -> None:
        self.assert_agreement(**{host: {self.uuid: state}})
