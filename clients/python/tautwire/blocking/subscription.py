"""Subscriptions for threads."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Callable, Generic, Iterator, Optional, TypeVar

from .. import _native
from .._native import Message
from .._publication import BATCH
from ..errors import MqttError

if TYPE_CHECKING:
    from .client import Client

M = TypeVar("M")


class Subscription(Generic[M]):
    """A subscription, which iterates over its messages in order of arrival. Created by `Client.subscribe`.

    Leaving a loop over it, or its `with` block, ends the subscription. If the session outlives the client (`session_expiry`, a store), the
    server keeps the subscription: messages of QoS 1 and 2 wait for the next one to this filter, and only `unsubscribe` ends it. A message is
    acknowledged when the next one is requested. If the session outlives the client, the message on which a loop is left is delivered again,
    unless it was acknowledged with `acknowledge`. Only one thread at a time can receive.
    """

    def __init__(
        self,
        client: Client,
        native: _native.Subscription,
        filters: tuple[str, ...],
        convert: Optional[Callable[[Message], Any]],
        acknowledges: bool,
    ) -> None:
        self._client = client
        self._native = native
        self.filters = filters
        """The topic filters."""
        self._convert = convert
        self._acknowledges = acknowledges
        self._is_closed = False
        self._batch: deque[Message] = deque()
        self._previous: Optional[Message] = None

    def __enter__(self) -> Subscription[M]:
        return self

    def __exit__(self, raised: object, *_more: object) -> None:
        # After an exception, such as Ctrl-C, do not wait for the server.
        if raised is not None:
            self._leave()
        elif self._client._settings.outlives:
            self._settle()
            self._leave()
        else:
            self.unsubscribe()

    def __del__(self) -> None:
        self._leave()

    def __iter__(self) -> Iterator[M]:
        if self._is_closed:
            raise MqttError("unsubscribed")
        return _Loop(self)

    @property
    def granted(self) -> dict[str, int]:
        """The granted QoS of each filter."""
        return dict(self._native.granted())

    @property
    def dropped(self) -> int:
        """The number of QoS 0 messages that were dropped because they were not read fast enough."""
        return self._native.dropped()

    def next(self, timeout: Optional[float] = None) -> M:
        """Returns the next message, without ending the subscription. `timeout` is in seconds.

        Raises `TimeoutError`, or `MqttError` if the subscription has ended.
        """
        self._settle()
        if not self._batch and not self._fetch(timeout):
            raise self._end_error() or MqttError("unsubscribed")
        return self._deliver()

    def acknowledge(self, message: Any) -> None:
        """Acknowledges a message, of a subscription with `manual_acknowledgement`, or before a loop is left. Acknowledgements are sent in
        the order of the messages [MQTT-4.6.0-2], so a missing one blocks later ones."""
        acknowledged = message if isinstance(message, Message) else message.message
        if self._previous is acknowledged:
            self._previous = None
        self._client._core.acknowledge(acknowledged)

    def unsubscribe(self, timeout: Optional[float] = None) -> None:
        """Ends the subscription, also on the server, and waits for its response. Undelivered messages are acknowledged and dropped.

        Raises `TimeoutError` if there is no response after `timeout` seconds, and `MqttError` if the server refuses, or the client is
        closed before the response.
        """
        operation = self._close()
        if operation is None:
            return
        for filter_, reason in zip(self.filters, operation.wait(timeout)):
            if reason >= 0x80:
                raise MqttError("unsubscribe_refused", filter_, reason)

    def _fetch(self, timeout: Optional[float]) -> bool:
        """Waits for a message. Returns false if the subscription has ended."""
        if self._is_closed:
            return False
        batch = self._native.take_waiting(BATCH, timeout)
        self._batch.extend(batch or ())
        return batch is not None

    def _deliver(self) -> M:
        message: Any = self._batch.popleft()
        if self._acknowledges:
            self._previous = message
        return message if self._convert is None else self._convert(message)  # type: ignore[no-any-return]

    def _settle(self) -> None:
        """Acknowledges the last delivered message."""
        previous = self._previous
        if previous is not None:
            self._previous = None
            self._client._core.acknowledge(previous)

    def _end_error(self) -> Optional[MqttError]:
        """Returns the error that ended the subscription; `None` if the application ended it."""
        ended = None if self._is_closed else self._native.ended()
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

    def __iter__(self) -> _Loop[M]:
        return self

    def __next__(self) -> M:
        subscription = self._subscription
        subscription._settle()
        if not subscription._batch and not subscription._fetch(None):
            error = subscription._end_error()
            if error is not None:
                raise error
            raise StopIteration
        return subscription._deliver()

    def __del__(self) -> None:
        self._subscription._leave()
