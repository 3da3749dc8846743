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
    """Makes one attempt to connect, and returns when the server has accepted it; afterwards lost connections are made again.

    As `tautwire.connect`, with the same options and errors.
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
    """Returns at once and goes on trying, also where the first attempt fails. What is published and subscribed meanwhile waits."""
    return Client(options(address, **given))


class Delivery:
    """A message on its way. Nothing happens to the message if nobody waits for it."""

    def __init__(self, operation: Optional[Operation]) -> None:
        self._operation = operation
        self._lock = threading.Lock()
        self._reason: Optional[int] = None if operation is not None else 0
        self._error: Optional[MqttError] = None

    def wait(self, timeout: Optional[float] = None) -> int:
        """Waits until the server has acknowledged it to the end, and gives the reason code: 0, or 0x10 where nobody has subscribed.

        Raises `TimeoutError` after `timeout` seconds, or `MqttError` as `Client.publish`.
        """
        end = None if timeout is None else time.monotonic() + timeout
        # Another thread may wait for it, too, and longer than this one wants to.
        if not self._lock.acquire(timeout=-1 if timeout is None else min(max(0.0, timeout), threading.TIMEOUT_MAX)):
            raise TimeoutError("the time is over")
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
    """A client for threads; any thread may use it. Made by `connect` or `start`."""

    def __init__(self, settings: Options) -> None:
        self._settings = settings
        ask = settings.settings["credentials"]
        asking = None if ask is None else lambda: credentials_of(ask())
        self._core = _native.Client.start({**settings.settings, "credentials": asking})
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
        """The client identifier; the server's choice where it made one."""
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
        """Publishes a message, and waits until the server has acknowledged it to the end, however often the connection is lost meanwhile.
        At QoS 0 it waits only for room in the client. `expiry` and `timeout` are in seconds.

        Gives the reason code of the acknowledgement: 0, or 0x10 where nobody has subscribed.

        Raises `TimeoutError`, after which the message may still be delivered, or `MqttError` as that of `asyncio`.
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
        """As `publish`, and returns once the client has taken the message. Raises `TimeoutError` where there was no room in time."""
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
        """Subscribes, waits for the server's answer, and gives an iterator: `for message in client.subscribe("a/#", qos=1)`.

        Raises `TimeoutError` where the answer has not come after `timeout` seconds. The other arguments and errors are those of the client for
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
        """Publishes a request and waits for its response (section 4.10). MQTT 5.0. Any thread may call it at any time.

        Raises `MqttError`: `request_timeout`, `no_responder` where nobody has subscribed (not at QoS 0), `request_failed` where the responder
        says so, and as `publish`.
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
        """Answers requests with what `handler` returns, on a thread of its own: a payload, `None` for an empty one, or a value for `codec`.

        A handler that raises `ResponseFailure` tells the requester its sentence; of any other exception the requester learns only that the
        responder failed, and `threading.excepthook` gets it. A request comes at the QoS at which it was published, or at `qos` if that is lower,
        and its response goes out at the same. Raises `MqttError` as `subscribe`.
        """
        check_version(self.version)
        return Responder(self, self.subscribe(filters, qos=qos), handler, codec)

    def connected(self, timeout: Optional[float] = None) -> None:
        """Waits until there is a connection. Raises `TimeoutError`, or `MqttError` where the client is closed or has given up."""
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
        """What happens to the connection, beginning with how it stands at this call. Ends after `ended`. Steps in between may be left out."""
        watch, history = self._core.watch(), History()
        return _events(watch, history, history.event(*watch.next().wait()))

    def reauthenticate(self) -> None:
        """Authenticates again on the connection that there is (section 4.12.1). As that of asyncio."""
        self._core.reauthenticate().wait()

    def counters(self) -> dict[str, int]:
        """What has been counted since the client was made, by name."""
        return {**self._core.counters(), "late_responses": self._requests.late}

    def close(self) -> None:
        """Ends the client: waits until all that was published is acknowledged, for 5 s at most, and says DISCONNECT. Loops over subscriptions
        end; what still waits fails with `closed`. The session ends with it, unless `session_expiry` was given. Again, it does nothing.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._requests.close()
        try:
            self._core.close(self._settings.closing_expiry).wait(CLOSE_TIMEOUT)
        except TimeoutError:
            # An attempt to connect that nobody answers is under way. The client ends after it.
            pass

    def _first_attempt(self) -> None:
        for event in self.events():
            if event.kind == CONNECTED:
                return
            if event.kind in (ATTEMPT_FAILED, ENDED):
                raise event.error or MqttError("closed")

    def _give_up(self) -> None:
        """The attempt to connect has failed. When this returns the file of the store can be opened again."""
        if self._settings.settings["store"] is None:
            self._abandon()
        else:
            self.close()

    def _abandon(self) -> None:
        """Ends it without waiting: there has been no connection."""
        self._is_closed = True
        self._core.close()


def _events(watch: _native.Watch, history: History, event: Optional[Event]) -> Iterator[Event]:
    """One event and those that follow it."""
    while event is None or event.kind != ENDED:
        if event is not None:
            yield event
        event = history.event(*watch.next().wait())
    yield event
