# SPDX-License-Identifier: Apache-2.0

"""What every cloud does: start, answer, stop."""

import functools
from typing import Self
import urllib.error
import urllib.request

from keystoneauth1 import adapter
from openstack import connection

from dev.cloud import child
from dev.cloud import endpoints
from dev.cloud import folder as folders
from dev.cloud import sdk
from dev.cloud import settings as cloud_settings


class Processes:
    """What runs in processes of its own; a context manager.

    Derived classes say in :meth:`_start` what runs.
    """

    #: Seconds that processes get to end in order.
    stop_seconds = 5.0

    def __init__(self) -> None:
        self._children: list[child.Child] = []

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Start everything and wait until it answers.

        :raises CloudError: with the reason; nothing is left running
        """
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop what runs; twice is once."""
        child.stop(self._children, seconds=self.stop_seconds)

    def check(self) -> None:
        """Do nothing while all processes run.

        :raises ChildFailed: one has ended
        """
        for one in self._children:
            one.check()

    def _start(self) -> None:
        raise NotImplementedError


class Cloud(Processes):
    """A real Nova, placement and glance.

    :ivar settings: what the caller chose
    :ivar folder: where everything is, removed by :meth:`stop`
    """

    def __init__(
        self,
        settings: cloud_settings.Settings | None = None,
        *,
        folder: folders.Folder | None = None,
    ) -> None:
        """Describe the cloud; nothing is started or written yet.

        :param folder: a folder that the caller made and removes; without
            it the cloud makes and removes its own
        """
        super().__init__()
        self.settings = settings or cloud_settings.Settings()
        self._owns_folder = folder is None
        self.folder = folder or folders.Folder.create()
        self._urls: endpoints.Urls | None = None

    @property
    def urls(self) -> endpoints.Urls:
        """Where the services answer.

        :raises RuntimeError: before :meth:`start`
        """
        if self._urls is None:
            raise RuntimeError('The cloud was not started.')
        return self._urls

    @functools.cached_property
    def sdk(self) -> connection.Connection:
        """An openstacksdk connection as the administrator."""
        return sdk.connect(self.folder)

    @functools.cached_property
    def placement(self) -> adapter.Adapter:
        """An adapter for raw, microversioned calls of placement."""
        return sdk.placement(self.sdk, self.urls.placement)

    def stop(self) -> None:
        """Stop what runs and remove the folder; twice is once."""
        super().stop()
        self._children.clear()
        if self._owns_folder:
            self.folder.remove()


def answers(url: str) -> bool:
    """Say whether an HTTP server there answers with success."""
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except urllib.error.HTTPError as error:
        # Glance answers 300, Multiple Choices, to a client without a path.
        return error.code < 400
    except OSError:
        return False
