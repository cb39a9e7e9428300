# SPDX-License-Identifier: Apache-2.0

"""Start and stop the cloud."""

import functools
import signal

from dev.cloud import base
from dev.cloud import child
from dev.cloud import endpoints
from dev.cloud.lite import config

#: For what hangs: a machine under load takes many times what an idle one does.
_READY_SECONDS = 240.0


class Cloud(base.Cloud):
    """A cloud in two processes; a context manager.

    ::

        with Cloud(Settings(hosts=('a', 'b'))) as cloud:
            cloud.sdk.compute.create_flavor(...)
    """

    _restarts = 0

    def restart_computes(self) -> None:
        """Stop nova-compute of all hosts and start it again; guests run on.

        :raises ChildFailed: one did not start
        """
        self._restarts += 1
        said = f'computes started again, {self._restarts}'
        _, control = self._children
        control.send(signal.SIGHUP)
        control.wait_until(
            lambda: any(said in line for line in control.tail()),
            seconds=_READY_SECONDS,
        )

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
            functools.partial(base.answers, self.urls.compute),
            seconds=_READY_SECONDS,
        )
        image.wait_until(
            functools.partial(base.answers, self.urls.image),
            seconds=_READY_SECONDS,
        )

    def _image(self, bound: endpoints.Endpoints) -> child.Child:
        fd = bound.image.fileno()
        return child.Child(
            'glance',
            'dev.cloud.lite.image',
            [f'--etc={self.folder.etc}', f'--image-fd={fd}'],
            folder=self.folder,
            fds=[fd],
            log=self.folder.glance_log,
        )

    def _control(self, bound: endpoints.Endpoints) -> child.Child:
        fds = {
            'identity': bound.identity.fileno(),
            'placement': bound.placement.fileno(),
            'compute': bound.compute.fileno(),
            'network': bound.network.fileno(),
        }
        return child.Child(
            'control',
            'dev.cloud.lite.control',
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
