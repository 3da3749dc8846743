"""The client for asyncio."""

from __future__ import annotations

import asyncio
import inspect
import warnings
from typing import TYPE_CHECKING, Any, AsyncIterator, Awaitable, Callable, Generator, Optional, Sequence, TypeVar, Union, overload

from . import _native
from ._bridge import Bridge
from ._native import Message, Operation
from ._publication import CAPACITY, FULL, Filters, converter, encoded, extra, subscribing
from .codecs import Codec
from .errors import MqttError
from .events import ATTEMPT_FAILED, CONNECTED, ENDED, Event, History
from .options import CLOSE_TIMEOUT, Credentials, Options, Payload, UserProperties, credentials_of, options
from .requests import REQUEST_TIMEOUT, Requests, Responder
from .subscription import Subscription
from .topics import Address, Topic, TypedMessage

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .options import ConnectOptions

T = TypeVar("T")


def connect(address: str, **given: Unpack[ConnectOptions]) -> ConnectContext:
    """Makes one attempt to connect, and reconnects after a lost connection. For `async with`, or `await`.

    `address` is `mqtt://`, `mqtts://`, `ws://` or `wss://HOST[:PORT]`, or `unix:/PATH`. Options: `tautwire.ConnectOptions`.

    Raises `MqttError` if the attempt fails: `unreachable`, `name_not_found`, `connection_refused`, a code that begins with `tls_`, and others;
    or `store_failed`.
    """
    return ConnectContext(options(address, **given))


def start(address: str, **given: Unpack[ConnectOptions]) -> Client:
    """Returns at once and connects in the background until it succeeds. You can publish and subscribe in the meantime.

    For programs that may start before their broker. It takes the options of `connect`. `Client.events` reports failed attempts.
    """
    return Client(options(address, **given))


class ConnectContext:
    """The result of `connect`, for `async with` or `await`."""

    def __init__(self, settings: Options) -> None:
        self._settings = settings
        self._client: Optional[Client] = None

    def __await__(self) -> Generator[Any, None, Client]:
        return self._connect().__await__()

    async def __aenter__(self) -> Client:
        self._client = await self._connect()
        return self._client

    async def __aexit__(self, *_raised: object) -> None:
        if self._client is not None:
            await self._client.close()

    async def _connect(self) -> Client:
        client = Client(self._settings)
        try:
            await client._first_attempt()
        except MqttError:
            await client._give_up()
            raise
        except BaseException:
            client._abandon()
            raise
        return client


class Client:
    """A client. Created by `connect` or `start`; belongs to the event loop in which it was created."""

    def __init__(self, settings: Options) -> None:
        self._settings = settings
        loop = asyncio.get_running_loop()
        self._bridge = Bridge(loop)
        try:
            self._core = _native.Client.start({**settings.settings, "credentials": _credentials_function(settings, loop)})
        except BaseException:
            self._bridge.stop()
            raise
        self._name = self._core.client_id
        self._is_closed = False
        self._requests = Requests(self)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.close()

    def __del__(self) -> None:
        if not getattr(self, "_is_closed", True):
            warnings.warn("a tautwire client was not closed: use async with, or await close()", ResourceWarning, source=self)
            self._bridge.abandon()

    def __repr__(self) -> str:
        return f"<tautwire.Client {self._name!r}>"

    @property
    def client_id(self) -> str:
        """The client identifier, possibly assigned by the server."""
        return self._core.client_id

    @property
    def version(self) -> int:
        """4 for MQTT 3.1.1, 5 for MQTT 5.0."""
        return int(self._settings.settings["version"])

    @overload
    async def publish(
        self, topic: str, payload: Payload = b"", *, qos: int = 0, retain: bool = False, expiry: Optional[int] = None,
        content_type: Optional[str] = None, is_text: bool = False, response_topic: Optional[str] = None,
        correlation_data: Optional[bytes] = None, user_properties: UserProperties = (),
    ) -> int: ...  # fmt: skip
    @overload
    async def publish(
        self, topic: Address[T], payload: T, *, qos: int = 0, retain: bool = False, expiry: Optional[int] = None,
        content_type: Optional[str] = None, is_text: bool = False, response_topic: Optional[str] = None,
        correlation_data: Optional[bytes] = None, user_properties: UserProperties = (),
    ) -> int: ...  # fmt: skip
    async def publish(
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
    ) -> int:
        """Publishes a message, and waits until its exchange is complete, also across lost connections.
        At QoS 0 it waits only for space in the queue. `expiry` is in seconds.

        Returns the reason code of the acknowledgement: 0, or 0x10 if there is no subscriber. If cancelled, the message may still be delivered.

        Raises `MqttError`: `publish_refused`, `expired`, `session_lost`, `packet_too_large`, `qos_not_supported`, `retain_not_supported`,
        `closed`, `invalid_argument`, `payload_invalid`.
        """
        if type(topic) is not str:
            topic, payload, content_type, is_text = encoded(topic, payload, content_type, is_text)
        more = extra(expiry, content_type, is_text, response_topic, correlation_data, user_properties)
        try:
            operation = self._core.publish(topic, payload, qos, retain, more)
        except MqttError as error:
            if error.code not in FULL:
                raise
            operation = await self._bridge.run(self._core.publish_when_room(topic, payload, qos, retain, more))
        if not isinstance(operation, Operation):
            return 0
        return await self._bridge.run(operation)  # type: ignore[no-any-return]

    @overload
    async def enqueue(
        self, topic: str, payload: Payload = b"", *, qos: int = 0, retain: bool = False, expiry: Optional[int] = None,
        content_type: Optional[str] = None, is_text: bool = False, response_topic: Optional[str] = None,
        correlation_data: Optional[bytes] = None, user_properties: UserProperties = (),
    ) -> asyncio.Future[int]: ...  # fmt: skip
    @overload
    async def enqueue(
        self, topic: Address[T], payload: T, *, qos: int = 0, retain: bool = False, expiry: Optional[int] = None,
        content_type: Optional[str] = None, is_text: bool = False, response_topic: Optional[str] = None,
        correlation_data: Optional[bytes] = None, user_properties: UserProperties = (),
    ) -> asyncio.Future[int]: ...  # fmt: skip
    async def enqueue(
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
    ) -> asyncio.Future[int]:
        """Like `publish`, but returns when the client has queued the message. The future has the result of `publish`."""
        if type(topic) is not str:
            topic, payload, content_type, is_text = encoded(topic, payload, content_type, is_text)
        more = extra(expiry, content_type, is_text, response_topic, correlation_data, user_properties)
        try:
            operation = self._core.publish(topic, payload, qos, retain, more)
        except MqttError as error:
            if error.code not in FULL:
                raise
            operation = await self._bridge.run(self._core.publish_when_room(topic, payload, qos, retain, more))
        if isinstance(operation, Operation):
            return self._bridge.future(operation)
        done: asyncio.Future[int] = self._bridge.loop.create_future()
        done.set_result(0)
        return done

    @overload
    def subscribe(
        self, filters: Topic[T], *, qos: int = 0, no_local: bool = False, retain_as_published: bool = False,
        retain_handling: int = 0, identifier: Optional[int] = None, manual_acknowledgement: bool = False,
        capacity: int = CAPACITY, overflow: str = "wait", user_properties: UserProperties = (),
    ) -> Subscription[TypedMessage[T]]: ...  # fmt: skip
    @overload
    def subscribe(
        self, filters: Union[str, Sequence[str]], *, qos: int = 0, no_local: bool = False, retain_as_published: bool = False,
        retain_handling: int = 0, identifier: Optional[int] = None, manual_acknowledgement: bool = False,
        capacity: int = CAPACITY, overflow: str = "wait", user_properties: UserProperties = (),
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
    ) -> Subscription[Any]:
        """Returns a subscription to iterate over: `async for message in client.subscribe("a/#", qos=1)`. It subscribes when the loop starts;
        `await` the subscription to wait for the server's response first.

        `filters` is a filter, several of them, or a typed topic. The subscription buffers `capacity` messages; `overflow` says what
        happens to further QoS 0 messages: `"wait"` pauses reading from the server, `"drop_newest"` and `"drop_oldest"` drop and count them.

        Raises `MqttError`: `subscribe_refused` if the server refuses one of the filters, then there is no subscription; `not_supported`,
        `closed`, `invalid_argument`. A loop over it raises the error that ended the client, unless the application closed it.
        """
        settings = subscribing(
            filters, qos=qos, no_local=no_local, retain_as_published=retain_as_published, retain_handling=retain_handling,
            identifier=identifier, capacity=capacity, overflow=overflow, user_properties=user_properties,
        )  # fmt: skip
        return Subscription(self, settings, converter(filters), not manual_acknowledgement)

    @overload
    async def request(
        self, topic: str, payload: Payload = b"", *, qos: int = 1, timeout: float = REQUEST_TIMEOUT, expiry: Optional[int] = None,
        content_type: Optional[str] = None, is_text: bool = False, user_properties: UserProperties = (),
    ) -> Message: ...  # fmt: skip
    @overload
    async def request(
        self, topic: Address[T], payload: T, *, qos: int = 1, timeout: float = REQUEST_TIMEOUT, expiry: Optional[int] = None,
        content_type: Optional[str] = None, is_text: bool = False, user_properties: UserProperties = (),
    ) -> Message: ...  # fmt: skip
    async def request(
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
        """Publishes a request and waits for its response (section 4.10). MQTT 5.0. Any number of requests can be pending.

        Raises `MqttError`: `request_timeout`, `no_responder` if there is no subscriber (not at QoS 0), `request_failed` if the responder
        reports a failure, and as `publish`.
        """
        return await self._requests.request(
            topic, payload, timeout=timeout,
            qos=qos, expiry=expiry, content_type=content_type, is_text=is_text, user_properties=user_properties,
        )  # fmt: skip

    @overload
    async def respond(
        self, filters: Topic[T], handler: Callable[[TypedMessage[T]], Union[Any, Awaitable[Any]]], *, qos: int = 2,
        codec: Optional[Codec[Any]] = None,
    ) -> Responder: ...  # fmt: skip
    @overload
    async def respond(
        self, filters: Union[str, Sequence[str]], handler: Callable[[Message], Union[Any, Awaitable[Any]]], *, qos: int = 2,
        codec: Optional[Codec[Any]] = None,
    ) -> Responder: ...  # fmt: skip
    async def respond(
        self,
        filters: Filters,
        handler: Callable[[Any], Union[Any, Awaitable[Any]]],
        *,
        qos: int = 2,
        codec: Optional[Codec[Any]] = None,
    ) -> Responder:
        """Responds to requests with the result of `handler`: a payload, `None` for an empty one, or a value for `codec`. It may be a coroutine.

        Requests are handled sequentially, until the responder or the client is closed. If the handler raises `ResponseFailure`, the requester
        gets its message; for any other exception the requester learns only that the responder failed, and the event loop's
        exception handler gets it. A request is delivered at the QoS of its PUBLISH, or at `qos` if that is lower, and its response is published
        at the same QoS.

        Raises `MqttError` as `subscribe`.
        """
        responder = Responder(self, self.subscribe(filters, qos=qos), handler, codec)
        await responder._begin()
        return responder

    async def connected(self) -> None:
        """Waits until the client is connected. Raises `MqttError` if the client has ended."""
        async for event in self.events():
            if event.kind == CONNECTED:
                return
            if event.kind == ENDED:
                raise event.error or MqttError("closed")

    def events(self) -> AsyncIterator[Event]:
        """Iterates over the events of the connection, starting with the current state, until `ended`. Intermediate states may be skipped."""
        return _Events(self._core.watch(), self._bridge)

    async def reauthenticate(self) -> None:
        """Re-authenticates on the current connection (section 4.12.1) while messages keep flowing.

        Raises `MqttError` if there is no `scram` or `authenticator`, no connection, or either side refuses.
        """
        await self._bridge.run(self._core.reauthenticate())

    def counters(self) -> dict[str, int]:
        """Returns the counters of the client since its creation, by name."""
        return {**self._core.counters(), "late_responses": self._requests.late}

    async def close(self) -> None:
        """Closes the client: waits until all messages are acknowledged, for at most 5 s, and sends DISCONNECT. Loops over subscriptions
        end; pending operations fail with `closed`. The session ends, too, unless `session_expiry` was set. A second call does nothing.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._requests.close()
        closing = self._bridge.run(self._core.close(self._settings.closing_expiry))
        try:
            await asyncio.wait_for(closing, CLOSE_TIMEOUT)
        except asyncio.TimeoutError:
            # A connection attempt is still running. The client ends after it.
            pass
        finally:
            self._bridge.stop()

    async def _first_attempt(self) -> None:
        async for event in self.events():
            if event.kind == CONNECTED:
                return
            if event.kind in (ATTEMPT_FAILED, ENDED):
                raise event.error or MqttError("closed")

    async def _give_up(self) -> None:
        """Closes the client after a failed attempt. Afterwards the file of the store can be opened again."""
        if self._settings.settings["store"] is None:
            self._abandon()
        else:
            await self.close()

    def _abandon(self) -> None:
        """Ends the client without waiting, because it was never connected."""
        self._is_closed = True
        self._bridge.stop()
        # The operation is not awaited, because there is no connection to close.
        self._core.close()


def _credentials_function(settings: Options, loop: asyncio.AbstractEventLoop) -> Optional[Callable[[], tuple[Optional[str], Optional[bytes]]]]:
    """Returns a function that gets credentials on the thread of the native client; coroutines run on the event loop."""
    ask, timeout = settings.settings["credentials"], settings.settings["connect_timeout_s"]
    if ask is None:
        return None

    async def finish(given: Awaitable[Credentials]) -> Credentials:
        return await given

    def get() -> tuple[Optional[str], Optional[bytes]]:
        given = ask()
        if inspect.isawaitable(given):
            running = asyncio.run_coroutine_threadsafe(finish(given), loop)
            try:
                given = running.result(timeout)
            finally:
                running.cancel()
        return credentials_of(given)

    return get


class _Events:
    """An iterator over the events of a client."""

    def __init__(self, watch: _native.Watch, bridge: Bridge) -> None:
        self._watch = watch
        self._bridge = bridge
        self._history = History()
        # Get the current state now. Later, a lost connection might be the first event.
        self._first = self._history.event(*watch.next().wait())
        self._is_over = False

    def __aiter__(self) -> _Events:
        return self

    async def __anext__(self) -> Event:
        while not self._is_over:
            event, self._first = self._first, None
            if event is None:
                event = self._history.event(*await self._bridge.run(self._watch.next()))
            if event is not None:
                self._is_over = event.kind == ENDED
                return event
        raise StopAsyncIteration
