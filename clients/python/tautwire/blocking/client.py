"""The client for threads."""

from __future__ import annotations

import threading
import time
import warnings
from typing import TYPE_CHECKING, Any, Callable, Iterator, Optional, Sequence, TypeVar, Union, overload

from .. import _native
from .._native import Message, Operation
from .._publication import CAPACITY, FULL, Filters, converter, encoded, extra, subscribing
from ..codecs import Codec
from ..errors import MqttError
from ..events import ATTEMPT_FAILED, CONNECTED, ENDED, Event, History
from ..options import CLOSE_TIMEOUT, Options, Payload, UserProperties, credentials_of, options
from ..requests import REQUEST_TIMEOUT, check_version
from ..topics import Address, Topic, TypedMessage
from .requests import Requests, Responder
from .subscription import Subscription

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..options import ConnectOptions

T = TypeVar("T")


def connect(address: str, **given: Unpack[ConnectOptions]) -> Client:
    """Makes one attempt to connect, and returns when the server has accepted it. Reconnects after a lost connection.

    Like `tautwire.connect`, with the same options and errors.
    """
    client = Client(options(address, **given))
    try:
        client._first_attempt()
    except MqttError:
        client._give_up()
        raise
    except BaseException:
        client._abandon()
        raise
    return client


def start(address: str, **given: Unpack[ConnectOptions]) -> Client:
    """Returns at once and connects in the background until it succeeds. You can publish and subscribe in the meantime."""
    return Client(options(address, **given))


class Delivery:
    """The delivery of a message. The message is delivered whether or not you wait for it."""

    def __init__(self, operation: Optional[Operation]) -> None:
        self._operation = operation
        self._lock = threading.Lock()
        self._reason: Optional[int] = None if operation is not None else 0
        self._error: Optional[MqttError] = None

    def wait(self, timeout: Optional[float] = None) -> int:
        """Waits until the exchange is complete. Returns the reason code: 0, or 0x10 if there is no subscriber.

        Raises `TimeoutError` after `timeout` seconds, or `MqttError` as `Client.publish`.
        """
        end = None if timeout is None else time.monotonic() + timeout
        # Another thread may be waiting with a longer timeout.
        if not self._lock.acquire(timeout=-1 if timeout is None else min(max(0.0, timeout), threading.TIMEOUT_MAX)):
            raise TimeoutError("timed out")
        try:
            if self._error is not None:
                raise self._error
            if self._reason is None and self._operation is not None:
                try:
                    self._reason = self._operation.wait(None if end is None else end - time.monotonic())
                except MqttError as error:
                    self._error = error
                    raise
            return self._reason or 0
        finally:
            self._lock.release()


class Client:
    """A client for threads; any thread can use it. Created by `connect` or `start`."""

    def __init__(self, settings: Options) -> None:
        self._settings = settings
        function = settings.settings["credentials"]
        get_credentials = None if function is None else lambda: credentials_of(function())
        self._core = _native.Client.start({**settings.settings, "credentials": get_credentials})
        self._name = self._core.client_id
        self._is_closed = False
        self._requests = Requests(self)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_is_closed", True):
            warnings.warn("a tautwire client was not closed: use with, or close()", ResourceWarning, source=self)

    def __repr__(self) -> str:
        return f"<tautwire.blocking.Client {self._name!r}>"

    @property
    def client_id(self) -> str:
        """The client identifier, possibly assigned by the server."""
        return self._core.client_id

    @property
    def version(self) -> int:
        """4 for MQTT 3.1.1, 5 for MQTT 5.0."""
        return int(self._settings.settings["version"])

    @overload
    def publish(
        self, topic: str, payload: Payload = b"", *, qos: int = 0, retain: bool = False, expiry: Optional[int] = None,
        content_type: Optional[str] = None, is_text: bool = False, response_topic: Optional[str] = None,
        correlation_data: Optional[bytes] = None, user_properties: UserProperties = (), timeout: Optional[float] = None,
    ) -> int: ...  # fmt: skip
    @overload
    def publish(
        self, topic: Address[T], payload: T, *, qos: int = 0, retain: bool = False, expiry: Optional[int] = None,
        content_type: Optional[str] = None, is_text: bool = False, response_topic: Optional[str] = None,
        correlation_data: Optional[bytes] = None, user_properties: UserProperties = (), timeout: Optional[float] = None,
    ) -> int: ...  # fmt: skip
    def publish(
        self, topic: Union[str, Address[Any]], payload: Any = b"", *, timeout: Optional[float] = None, **more: Any
    ) -> int:
        """Publishes a message, and waits until its exchange is complete, also across lost connections.
        At QoS 0 it waits only for space in the queue. `expiry` and `timeout` are in seconds.

        Returns the reason code of the acknowledgement: 0, or 0x10 if there is no subscriber.

        Raises `TimeoutError`, after which the message may still be delivered, or `MqttError` like the `asyncio` client.
        """
        began = time.monotonic()
        delivery = self.enqueue(topic, payload, timeout=timeout, **more)
        return delivery.wait(None if timeout is None else max(0.0, timeout - (time.monotonic() - began)))

    @overload
    def enqueue(
        self, topic: str, payload: Payload = b"", *, qos: int = 0, retain: bool = False, expiry: Optional[int] = None,
        content_type: Optional[str] = None, is_text: bool = False, response_topic: Optional[str] = None,
        correlation_data: Optional[bytes] = None, user_properties: UserProperties = (), timeout: Optional[float] = None,
    ) -> Delivery: ...  # fmt: skip
    @overload
    def enqueue(
        self, topic: Address[T], payload: T, *, qos: int = 0, retain: bool = False, expiry: Optional[int] = None,
        content_type: Optional[str] = None, is_text: bool = False, response_topic: Optional[str] = None,
        correlation_data: Optional[bytes] = None, user_properties: UserProperties = (), timeout: Optional[float] = None,
    ) -> Delivery: ...  # fmt: skip
    def enqueue(
        self,
        topic: Union[str, Address[Any]],
        payload: Any = b"",
        *,
        qos: int = 0,
        retain: bool = False,
        expiry: Optional[int] = None,
        content_type: Optional[str] = None,
        is_text: bool = False,
        response_topic: Optional[str] = None,
        correlation_data: Optional[bytes] = None,
        user_properties: UserProperties = (),
        timeout: Optional[float] = None,
    ) -> Delivery:
        """Like `publish`, but returns when the client has queued the message. Raises `TimeoutError` if the queue stays full."""
        if type(topic) is not str:
            topic, payload, content_type, is_text = encoded(topic, payload, content_type, is_text)
        more = extra(expiry, content_type, is_text, response_topic, correlation_data, user_properties)
        try:
            operation = self._core.publish(topic, payload, qos, retain, more)
        except MqttError as error:
            if error.code not in FULL:
                raise
            operation = self._core.publish_when_room(topic, payload, qos, retain, more).wait(timeout)
        return Delivery(operation if isinstance(operation, Operation) else None)

    @overload
    def subscribe(
        self, filters: Topic[T], *, qos: int = 0, no_local: bool = False, retain_as_published: bool = False,
        retain_handling: int = 0, identifier: Optional[int] = None, manual_acknowledgement: bool = False,
        capacity: int = CAPACITY, overflow: str = "wait", user_properties: UserProperties = (), timeout: Optional[float] = None,
    ) -> Subscription[TypedMessage[T]]: ...  # fmt: skip
    @overload
    def subscribe(
        self, filters: Union[str, Sequence[str]], *, qos: int = 0, no_local: bool = False, retain_as_published: bool = False,
        retain_handling: int = 0, identifier: Optional[int] = None, manual_acknowledgement: bool = False,
        capacity: int = CAPACITY, overflow: str = "wait", user_properties: UserProperties = (), timeout: Optional[float] = None,
    ) -> Subscription[Message]: ...  # fmt: skip
    def subscribe(
        self,
        filters: Filters,
        *,
        qos: int = 0,
        no_local: bool = False,
        retain_as_published: bool = False,
        retain_handling: int = 0,
        identifier: Optional[int] = None,
        manual_acknowledgement: bool = False,
        capacity: int = CAPACITY,
        overflow: str = "wait",
        user_properties: UserProperties = (),
        timeout: Optional[float] = None,
    ) -> Subscription[Any]:
        """Subscribes, waits for the server's response, and returns an iterator: `for message in client.subscribe("a/#", qos=1)`.

        Raises `TimeoutError` if there is no response after `timeout` seconds. The other arguments and errors are those of the client for
        asyncio.
        """
        settings = subscribing(
            filters, qos=qos, no_local=no_local, retain_as_published=retain_as_published, retain_handling=retain_handling,
            identifier=identifier, capacity=capacity, overflow=overflow, user_properties=user_properties,
        )  # fmt: skip
        native: _native.Subscription = self._core.subscribe(settings).wait(timeout)
        return Subscription(self, native, tuple(settings["filters"]), converter(filters), not manual_acknowledgement)

    @overload
    def request(
        self, topic: str, payload: Payload = b"", *, qos: int = 1, timeout: float = REQUEST_TIMEOUT, expiry: Optional[int] = None,
        content_type: Optional[str] = None, is_text: bool = False, user_properties: UserProperties = (),
    ) -> Message: ...  # fmt: skip
    @overload
    def request(
        self, topic: Address[T], payload: T, *, qos: int = 1, timeout: float = REQUEST_TIMEOUT, expiry: Optional[int] = None,
        content_type: Optional[str] = None, is_text: bool = False, user_properties: UserProperties = (),
    ) -> Message: ...  # fmt: skip
    def request(
        self,
        topic: Union[str, Address[Any]],
        payload: Any = b"",
        *,
        qos: int = 1,
        timeout: float = REQUEST_TIMEOUT,
        expiry: Optional[int] = None,
        content_type: Optional[str] = None,
        is_text: bool = False,
        user_properties: UserProperties = (),
    ) -> Message:
        """Publishes a request and waits for its response (section 4.10). MQTT 5.0. Any thread can call it at any time.

        Raises `MqttError`: `request_timeout`, `no_responder` if there is no subscriber (not at QoS 0), `request_failed` if the responder
        reports a failure, and as `publish`.
        """
        return self._requests.request(
            topic, payload, timeout=timeout,
            qos=qos, expiry=expiry, content_type=content_type, is_text=is_text, user_properties=user_properties,
        )  # fmt: skip

    @overload
    def respond(
        self, filters: Topic[T], handler: Callable[[TypedMessage[T]], Any], *, qos: int = 2, codec: Optional[Codec[Any]] = None
    ) -> Responder: ...
    @overload
    def respond(
        self, filters: Union[str, Sequence[str]], handler: Callable[[Message], Any], *, qos: int = 2,
        codec: Optional[Codec[Any]] = None,
    ) -> Responder: ...  # fmt: skip
    def respond(
        self, filters: Filters, handler: Callable[[Any], Any], *, qos: int = 2, codec: Optional[Codec[Any]] = None
    ) -> Responder:
        """Responds to requests with the result of `handler`, on a separate thread: a payload, `None` for an empty one, or a value for `codec`.

        If the handler raises `ResponseFailure`, the requester gets its message; for any other exception the requester learns only that the
        responder failed, and `threading.excepthook` gets it. A request is delivered at the QoS of its PUBLISH, or at `qos` if that is lower,
        and its response is published at the same QoS. Raises `MqttError` as `subscribe`.
        """
        check_version(self.version)
        return Responder(self, self.subscribe(filters, qos=qos), handler, codec)

    def connected(self, timeout: Optional[float] = None) -> None:
        """Waits until the client is connected. Raises `TimeoutError`, or `MqttError` if the client has ended."""
        end = None if timeout is None else time.monotonic() + timeout
        watch, history = self._core.watch(), History()
        while True:
            left = None if end is None else max(0.0, end - time.monotonic())
            event = history.event(*watch.next().wait(left))
            if event is not None and event.kind == CONNECTED:
                return
            if event is not None and event.kind == ENDED:
                raise event.error or MqttError("closed")

    def events(self) -> Iterator[Event]:
        """Iterates over the events of the connection, starting with the current state, until `ended`. Intermediate states may be skipped."""
        watch, history = self._core.watch(), History()
        return _events(watch, history, history.event(*watch.next().wait()))

    def reauthenticate(self) -> None:
        """Re-authenticates on the current connection (section 4.12.1), like the asyncio client."""
        self._core.reauthenticate().wait()

    def counters(self) -> dict[str, int]:
        """Returns the counters of the client since its creation, by name."""
        return {**self._core.counters(), "late_responses": self._requests.late}

    def close(self) -> None:
        """Closes the client: waits until all messages are acknowledged, for at most 5 s, and sends DISCONNECT. Loops over subscriptions
        end; pending operations fail with `closed`. The session ends, too, unless `session_expiry` was set. A second call does nothing.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._requests.close()
        try:
            self._core.close(self._settings.closing_expiry).wait(CLOSE_TIMEOUT)
        except TimeoutError:
            # A connection attempt is still running. The client ends after it.
            pass

    def _first_attempt(self) -> None:
        for event in self.events():
            if event.kind == CONNECTED:
                return
            if event.kind in (ATTEMPT_FAILED, ENDED):
                raise event.error or MqttError("closed")

    def _give_up(self) -> None:
        """Closes the client after a failed attempt. Afterwards the file of the store can be opened again."""
        if self._settings.settings["store"] is None:
            self._abandon()
        else:
            self.close()

    def _abandon(self) -> None:
        """Ends the client without waiting, because it was never connected."""
        self._is_closed = True
        self._core.close()


def _events(watch: _native.Watch, history: History, event: Optional[Event]) -> Iterator[Event]:
    """Iterates over an event and those that follow it."""
    while event is None or event.kind != ENDED:
        if event is not None:
            yield event
        event = history.event(*watch.next().wait())
    yield event
