# SPDX-License-Identifier: Apache-2.0

"""Has oslo.messaging use the harness's bus under the name of ``fake``."""

from collections.abc import Sequence
from typing import Any

import oslo_messaging
from oslo_messaging._drivers import base
from oslo_messaging._drivers import common
from oslo_messaging._drivers import impl_fake

from tests.crash import bus
from tests.crash import steps


class Incoming(base.RpcIncomingMessage):
    """A message that a server has taken."""

    def __init__(
        self, transport: bus.Transport, number: int, body: Any
    ) -> None:
        super().__init__(*body)
        self._transport, self._number = transport, number

    def reply(self, reply: Any = None, failure: Any = None) -> None:
        if failure:
            failure = common.serialize_remote_exception(failure)
        self._transport.reply(self._number, (reply, failure))

    def requeue(self) -> None:
        raise NotImplementedError

    def heartbeat(self) -> None:
        pass


class Listener(base.PollStyleListener):
    """Takes messages for a server of a topic, and for any of its servers."""

    def __init__(
        self, transport: bus.Transport, addresses: Sequence[bus.Address]
    ) -> None:
        super().__init__()
        self._transport, self._addresses = transport, addresses
        self._is_stopped = False

    @base.batch_poll_helper
    def poll(self, timeout: float | None = None) -> Incoming | None:
        while not self._is_stopped:
            taken = self._transport.poll(self._addresses)
            if taken is not None:
                return Incoming(self._transport, *taken)
            if timeout is not None:
                return None
        return None

    def stop(self) -> None:
        self._is_stopped = True


class Driver(base.BaseDriver):
    """Sends by the transport that :func:`install` was given."""

    transport: bus.Transport

    def require_features(self, requeue: bool = True) -> None:
        pass

    def send(
        self,
        target: Any,
        ctxt: Any,
        message: Any,
        wait_for_reply: bool | None = None,
        timeout: float | None = None,
        **_options: Any,
    ) -> Any:
        with steps.around(_name_step(target, message)):
            try:
                answer = self.transport.send(
                    (target.topic, target.server),
                    (ctxt, message),
                    is_fanout=bool(target.fanout),
                    timeout=timeout,
                    is_call=bool(wait_for_reply),
                )
            except bus.NoReply:
                raise oslo_messaging.MessagingTimeout(
                    f'No reply on topic {target.topic}'
                ) from None
        if not wait_for_reply:
            return None
        reply, failure = answer
        if failure:
            raise common.deserialize_remote_exception(
                failure, self._allowed_remote_exmods
            )
        return reply

    def send_notification(self, *_arguments: Any, **_options: Any) -> None:
        """Nobody listens to notifications."""

    def listen(
        self, target: Any, batch_size: int, batch_timeout: float | None
    ) -> base.PollStyleListenerAdapter:
        made = Listener(
            self.transport,
            [(target.topic, target.server), (target.topic, None)],
        )
        return base.PollStyleListenerAdapter(made, batch_size, batch_timeout)

    def listen_for_notifications(self, *_arguments: Any) -> Any:
        raise NotImplementedError

    def cleanup(self) -> None:
        pass


def install(transport: bus.Transport) -> None:
    """Have every transport of this process use the bus."""
    Driver.transport = transport
    # Where the entry point of ``fake`` leads.
    impl_fake.FakeDriver = Driver


def _name_step(target: Any, message: Any) -> str:
    """Return what a message changes; '' where it only reads."""
    method, args = message['method'], message.get('args', {})
    if method == 'object_action':
        kind = args['objinst']['nova_object.name']
        return _name_write(kind, args['objmethod'])
    if method == 'object_class_action_versions':
        return _name_write(args['objname'], args['objmethod'])
    if method in ('ping', 'object_backport_versions'):
        return ''
    return f'message {target.topic.split(".")[0]} {method}'


def _name_write(kind: str, method: str) -> str:
    # The service says every few seconds that it is alive.
    if method.lstrip('_').startswith(('get', 'exists')) or kind == 'Service':
        return ''
    return f'nova {kind}.{method}'
