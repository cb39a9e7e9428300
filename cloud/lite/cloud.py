# SPDX-License-Identifier: Apache-2.0

"""Start and stop the cloud."""

import functools
import types
from typing import Self
import urllib.error
import urllib.request

from keystoneauth1 import adapter
from openstack import connection

from cloud import child
from cloud import endpoints
from cloud import folder as folders
from cloud.lite import config
from cloud import sdk
from cloud import settings as cloud_settings

_READY_SECONDS = 60.0


class Cloud:
    """A real Nova, placement and glance; a context manager.

    ::

        with Cloud(Settings(hosts=('a', 'b'))) as cloud:
            cloud.sdk.compute.create_flavor(...)

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
        self.settings = settings or cloud_settings.Settings()
        self._owns_folder = folder is None
        self.folder = folder or folders.Folder.create()
        self._children: list[child.Child] = []
        self._urls: endpoints.Urls | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        self.stop()

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
        """Stop what runs and remove the folder; twice is once."""
        for one in self._children:
            one.terminate()
        for one in self._children:
            one.wait(seconds=5.0)
        self._children.clear()
        if self._owns_folder:
            self.folder.remove()

    def check(self) -> None:
        """Do nothing while all processes run.

        :raises ChildFailed: one has ended
        """
        for one in self._children:
            one.check()

    def _start(self) -> None:
        bound = endpoints.Endpoints.bind()
        try:
            self._urls = bound.urls()
            config.write(self.folder, self.settings, self._urls)
            self._children = [self._image(bound), self._control(bound)]
            for one in self._children:
                one.start()
        finally:
            bound.close()
        image, control = self._children
        control.wait_until(
            functools.partial(_answers, self.urls.compute),
            seconds=_READY_SECONDS,
        )
        image.wait_until(
            functools.partial(_answers, self.urls.image),
            seconds=_READY_SECONDS,
        )

    def _image(self, bound: endpoints.Endpoints) -> child.Child:
        fd = bound.image.fileno()
        return child.Child(
            'glance',
            'cloud.lite.image',
            [f'--etc={self.folder.etc}', f'--image-fd={fd}'],
            folder=self.folder,
            fds=[fd],
            log=self.folder.glance_log,
        )

    def _control(self, bound: endpoints.Endpoints) -> child.Child:
        fds = {
            'placement': bound.placement.fileno(),
            'compute': bound.compute.fileno(),
            'network': bound.network.fileno(),
        }
        return child.Child(
            'control',
            'cloud.lite.control',
            [
                f'--etc={self.folder.etc}',
                *(f'--{name}-fd={fd}' for name, fd in fds.items()),
                *(f'--prepare={name}' for name in self.settings.prepare),
                *self.settings.hosts,
            ],
            folder=self.folder,
            fds=list(fds.values()),
            log=self.folder.nova_log,
        )


def _answers(url: str) -> bool:
    """Say whether an HTTP server there answers with success."""
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except urllib.error.HTTPError as error:
        # Glance answers 300, Multiple Choices, to a client without a path.
        return error.code < 400
    except OSError:
        return False
