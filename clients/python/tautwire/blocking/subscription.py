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
    """The messages of a subscription, in the order in which they came. Made by `Client.subscribe`.

    Leaving a loop over it, or its `with` block, ends the subscription. Where the session outlives the client (`session_expiry`, a store), the
    server keeps the subscription: messages of QoS 1 and 2 wait for the next one to this filter, and `unsubscribe` alone ends it. A message is
    acknowledged when the next one is asked for, and when the loop is left. One thread at a time may receive.
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
        """What it subscribes to."""
        self._convert = convert
        self._acknowledges = acknowledges
        self._is_closed = False
        self._batch: deque[Message] = deque()
        self._previous: Optional[Message] = None

    def __enter__(self) -> Subscription[M]:
        return self

    def __exit__(self, raised: object, *_more: object) -> None:
        # An error, such as that of Ctrl-C, does not wait for a server that may be gone.
        if self._client._settings.outlives or raised is not None:
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
        """The QoS that the server grants for each filter."""
        return dict(self._native.granted())

    def next(self, timeout: Optional[float] = None) -> M:
        """The next message, and leaves the subscription as it is. `timeout` is in seconds.

        Raises `TimeoutError`, or `MqttError` where there will be no more.
        """
        self._settle()
        if not self._batch and not self._fetch(timeout):
            raise self._why() or MqttError("unsubscribed")
        return self._hand_over()

    def acknowledge(self, message: Any) -> None:
        """Acknowledges a message of a subscription with `manual_acknowledgement`. Acknowledgements leave in the order of the messages
        [MQTT-4.6.0-2], so one that is withheld holds back those after it."""
        self._client._core.acknowledge(message if isinstance(message, Message) else message.message)

    def unsubscribe(self, timeout: Optional[float] = None) -> None:
        """Ends the subscription, at the server too, and waits for its answer. Messages not handed out yet are acknowledged and dropped.

        Raises `TimeoutError` where the answer has not come after `timeout` seconds, and `MqttError` where the server refuses, or the client is
        closed before it answers.
        """
        operation = self._close()
        if operation is None:
            return
        for filter_, reason in zip(self.filters, operation.wait(timeout)):
            if reason >= 0x80:
                raise MqttError("unsubscribe_refused", filter_, reason)

    def _fetch(self, timeout: Optional[float]) -> bool:
        """Waits until there is a message; false where there will be none."""
        if self._is_closed:
            return False
        batch = self._native.take_waiting(BATCH, timeout)
        self._batch.extend(batch or ())
        return batch is not None

    def _hand_over(self) -> M:
        message: Any = self._batch.popleft()
        if self._acknowledges:
            self._previous = message
        return message if self._convert is None else self._convert(message)  # type: ignore[no-any-return]

    def _settle(self) -> None:
        """What was handed over last has been handled."""
        previous = self._previous
        if previous is not None:
            self._previous = None
            self._client._core.acknowledge(previous)

    def _why(self) -> Optional[MqttError]:
        """Why there are no more messages; `None` where the application wanted it."""
        ended = None if self._is_closed else self._native.ended()
        if isinstance(ended, MqttError) and ended.code != "closed":
            return ended
        return None

    def _leave(self) -> None:
        """Ends it when nobody can receive from it any more. The server keeps it where the session outlives the client."""
        try:
            if self._client._settings.outlives:
                self._forsake()
            else:
                self._close()
        except MqttError:
            # The client is gone, and the subscription with it.
            pass

    def _forsake(self) -> None:
        """Ends it here, and not at the server."""
        if self._is_closed:
            return
        self._is_closed = True
        self._settle()
        unhandled = list(self._batch)
        self._batch.clear()
        self._native.leave(unhandled)

    def _close(self) -> Optional[_native.Operation]:
        """Ends it without waiting."""
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
    """One loop over a subscription. When the loop is left nothing refers to this any more, and the subscription ends."""

    def __init__(self, subscription: Subscription[M]) -> None:
        self._subscription = subscription

    def __iter__(self) -> _Loop[M]:
        return self

    def __next__(self) -> M:
        subscription = self._subscription
        subscription._settle()
        if not subscription._batch and not subscription._fetch(None):
            why = subscription._why()
            if why is not None:
                raise why
            raise StopIteration
        return subscription._hand_over()

    def __del__(self) -> None:
        self._subscription._leave()
