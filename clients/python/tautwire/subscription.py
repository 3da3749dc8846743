"""Subscriptions for asyncio."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, AsyncIterator, Callable, Generator, Generic, Optional, TypeVar

from . import _native
from ._bridge import retrieve_exception
from ._native import Message
from ._publication import BATCH
from .errors import MqttError

if TYPE_CHECKING:
    from .client import Client

M = TypeVar("M")

TURN_S = 0.001
"""How long available messages are delivered before other tasks run."""


class Subscription(Generic[M]):
    """A subscription, which iterates over its messages in order of arrival. Created by `Client.subscribe`.

    It subscribes when a loop over it starts, when it is awaited, or when it is entered with `async with`, which return the same object.
    Leaving the loop, or the `async with` block, ends the subscription. If the session outlives the client (`session_expiry`, a store), the
    server keeps the subscription: messages of QoS 1 and 2 wait for the next one to this filter, and only `unsubscribe` ends it. A message is
    acknowledged when the next one is requested. If the session outlives the client, the message on which a loop is left is delivered again,
    unless it was acknowledged with `acknowledge`.
    """

    def __init__(
        self,
        client: Client,
        settings: dict[str, Any],
        convert: Optional[Callable[[Message], Any]],
        acknowledges: bool,
    ) -> None:
        self._client = client
        self._settings = settings
        self._convert = convert
        self._acknowledges = acknowledges
        self._native: Optional[_native.Subscription] = None
        self._beginning: Optional[asyncio.Task[None]] = None
        self._is_closed = False
        self._batch: deque[Message] = deque()
        self._previous: Optional[Message] = None
        self._yielded_at_s = 0.0
        """When this subscription last yielded to the event loop."""
        self._key = client._bridge.key()
        self._fetching = asyncio.Lock()

    def __await__(self) -> Generator[Any, None, Subscription[M]]:
        return self._begun().__await__()

    async def __aenter__(self) -> Subscription[M]:
        return await self._begun()

    async def __aexit__(self, raised: object, *_more: object) -> None:
        # After an exception, such as a cancelled task, do not wait for the server.
        if raised is not None:
            self._leave()
        elif self._client._settings.outlives:
            self._settle()
            self._leave()
        else:
            await self.unsubscribe()

    def __del__(self) -> None:
        self._leave()

    def __aiter__(self) -> AsyncIterator[M]:
        if self._is_closed:
            raise MqttError("unsubscribed")
        return _Loop(self)

    @property
    def filters(self) -> tuple[str, ...]:
        """The topic filters."""
        return tuple(self._settings["filters"])

    @property
    def granted(self) -> dict[str, int]:
        """The granted QoS of each filter. Empty before the server's response."""
        return {} if self._native is None else dict(self._native.granted())

    @property
    def dropped(self) -> int:
        """The number of QoS 0 messages that were dropped because they were not read fast enough."""
        return 0 if self._native is None else self._native.dropped()

    async def next(self, timeout: Optional[float] = None) -> M:
        """Returns the next message, without ending the subscription. `timeout` is in seconds.

        Raises `asyncio.TimeoutError`, or `MqttError` if the subscription has ended.
        """
        self._settle(may_wait=not self._batch)
        loop = self._client._bridge.loop
        until_s = None if timeout is None else loop.time() + timeout
        # Another task may have taken the message.
        while not self._batch:
            fetching = self._fetch()
            has_message = await (fetching if until_s is None else asyncio.wait_for(fetching, until_s - loop.time()))
            if not has_message:
                raise self._end_error() or MqttError("unsubscribed")
        return self._deliver()

    def acknowledge(self, message: Any) -> None:
        """Acknowledges a message, of a subscription with `manual_acknowledgement`, or before a loop is left. PUBACK packets are sent in the
        order of the QoS 1 messages [MQTT-4.6.0-2], PUBREC in that of the QoS 2 messages [MQTT-4.6.0-3]: a missing one blocks later ones of
        its QoS."""
        acknowledged = message if isinstance(message, Message) else message.message
        if self._previous is acknowledged:
            self._previous = None
        self._client._core.acknowledge(acknowledged)

    async def unsubscribe(self) -> None:
        """Ends the subscription, also on the server, and waits for its response. Undelivered messages are acknowledged and dropped.

        Raises `MqttError` if the server refuses, or the client is closed before the response.
        """
        await self._closed(self._close())

    async def _closed(self, operation: Optional[_native.Operation]) -> None:
        if operation is None:
            return
        reasons = await self._client._bridge.run(operation)
        for filter_, reason in zip(self.filters, reasons):
            if reason >= 0x80:
                raise MqttError("unsubscribe_refused", filter_, reason)

    async def _begun(self) -> Subscription[M]:
        if self._native is None:
            if self._is_closed:
                raise MqttError("unsubscribed")
            if self._beginning is None:
                self._beginning = asyncio.ensure_future(self._begin())
                self._beginning.add_done_callback(retrieve_exception)
            # Several tasks may wait, and one may be cancelled.
            await asyncio.shield(self._beginning)
        return self

    async def _begin(self) -> None:
        client = self._client
        native = await client._bridge.run(client._core.subscribe(self._settings))
        self._native = native
        if self._is_closed:
            native.close()

    async def _fetch(self) -> bool:
        """Waits for a message. Returns false if the subscription has ended."""
        async with self._fetching:
            if self._batch:
                return True
            await self._begun()
            native, bridge = self._native, self._client._bridge
            if native is None:
                return False
            while True:
                batch = native.take(bridge.inbox, self._key, BATCH)
                if batch:
                    self._batch.extend(batch)
                    if bridge.loop.time() - self._yielded_at_s > TURN_S:
                        # A continuous stream must not starve other tasks.
                        await asyncio.sleep(0)
                        self._yielded_at_s = bridge.loop.time()
                    return True
                if batch is None:
                    return False
                bridge.flush()
                await bridge.called(self._key)
                self._yielded_at_s = bridge.loop.time()
                if bridge.is_stopped:
                    return False

    def _deliver(self) -> M:
        message: Any = self._batch.popleft()
        if self._acknowledges:
            self._previous = message
        return message if self._convert is None else self._convert(message)  # type: ignore[no-any-return]

    def _settle(self, may_wait: bool = False) -> None:
        """Acknowledges the last delivered message. With `may_wait`, the acknowledgement is sent with other packets of this turn of the loop."""
        previous, self._previous = self._previous, None
        if previous is None:
            return
        if may_wait:
            self._client._bridge.acknowledge(self._client._core, previous)
        else:
            self._client._core.acknowledge(previous)

    def _end_error(self) -> Optional[MqttError]:
        """Returns the error that ended the subscription; `None` if the application ended it."""
        ended = None if self._native is None or self._is_closed else self._native.ended()
        if isinstance(ended, MqttError) and ended.code != "closed":
            return ended
        return None

    def _leave(self) -> None:
        """Ends an unreachable subscription. If the session outlives the client, the server keeps it."""
        try:
            if self._client._settings.outlives:
                self._detach()
            else:
                self._close()
        except MqttError:
            # The client has ended, and the subscription with it.
            pass

    def _detach(self) -> None:
        """Ends the subscription locally, but not on the server."""
        if self._is_closed:
            return
        self._is_closed = True
        self._client._bridge.wake(self._key)
        if self._native is None:
            return
        # The application may have failed on the last message: it is delivered again.
        unhandled = [*([] if self._previous is None else [self._previous]), *self._batch]
        self._previous = None
        self._batch.clear()
        self._native.leave(unhandled)

    def _close(self) -> Optional[_native.Operation]:
        """Ends the subscription without waiting for the server."""
        if self._is_closed:
            return None
        self._is_closed = True
        self._client._bridge.wake(self._key)
        if self._native is None:
            return None
        self._settle()
        if self._acknowledges:
            for message in self._batch:
                self._client._core.acknowledge(message)
        self._batch.clear()
        return self._native.close()


class _Loop(Generic[M]):
    """One loop over a subscription. When the loop is left, this object is destroyed and ends the subscription."""

    def __init__(self, subscription: Subscription[M]) -> None:
        self._subscription = subscription

    def __aiter__(self) -> _Loop[M]:
        return self

    async def __anext__(self) -> M:
        subscription = self._subscription
        subscription._settle(may_wait=not subscription._batch)
        while not subscription._batch:
            if not await subscription._fetch():
                error = subscription._end_error()
                if error is not None:
                    raise error
                raise StopAsyncIteration
        return subscription._deliver()

    def __del__(self) -> None:
        self._subscription._leave()
