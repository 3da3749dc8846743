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


def connect(address: str, **given: Unpack[ConnectOptions]) -> Connecting:
    """Makes one attempt to connect and tells how it ended; afterwards lost connections are made again. For `async with`, or `await`.

    `address` is `mqtt://`, `mqtts://`, `ws://` or `wss://HOST[:PORT]`, or `unix:/PATH`. Options: `tautwire.ConnectOptions`.

    Raises `MqttError`: why there is no connection, such as `unreachable`, `name_not_found`, `connection_refused` or a code that begins with `tls_`;
    or `store_failed`.
    """
    return Connecting(options(address, **given))


def start(address: str, **given: Unpack[ConnectOptions]) -> Client:
    """Returns at once and goes on trying, also where the first attempt fails. What is published and subscribed meanwhile waits.

    For programs that may start before their broker. Options are those of `connect`. `Client.events` tells about failed attempts.
    """
    return Client(options(address, **given))


class Connecting:
    """What `connect` gives: `async with` it, or `await` it."""

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
    """A client. Made by `connect` or `start`; belongs to the event loop in which it was made."""

    def __init__(self, settings: Options) -> None:
        self._settings = settings
        loop = asyncio.get_running_loop()
        self._bridge = Bridge(loop)
        try:
            self._core = _native.Client.start({**settings.settings, "credentials": _asking(settings, loop)})
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
        """The client identifier; the server's choice where it made one."""
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
        """Publishes a message, and waits until the server has acknowledged it to the end, however often the connection is lost meanwhile.
        At QoS 0 it waits only for room in the client. `expiry` is in seconds.

        Gives the reason code of the acknowledgement: 0, or 0x10 where nobody has subscribed. Cancelled, the message may still be delivered.

        Raises `MqttError`: `publish_refused`, `expired`, `session_lost`, `packet_too_large`, `qos_not_supported`, `retain_not_supported`,
        `closed`, or what is wrong with the message.
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
        """As `publish`, and returns once the client has taken the message. The future tells what became of it."""
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
        """A subscription, to loop over: `async for message in client.subscribe("a/#", qos=1)`. The server is asked when the loop begins;
        `await` the subscription to have its answer before.

        `filters` is a filter, several of them, or a typed topic. `capacity` messages are held until they are asked for; `overflow` says what
        happens to QoS 0 messages beyond: `"wait"` stops reading from the server, `"drop_newest"` and `"drop_oldest"` drop and count.

        Raises `MqttError`: `subscribe_refused` where the server refuses one of the filters: there is no subscription then; `not_supported`,
        `closed`, or what is wrong with the filter. A loop over it raises why the client ended, if it did not end as wanted.
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
        """Publishes a request and waits for its response (section 4.10). MQTT 5.0. Any number of requests may wait at a time.

        Raises `MqttError`: `request_timeout`, `no_responder` where nobody has subscribed (not at QoS 0), `request_failed` where the responder
        says so, and as `publish`.
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
        """Answers requests with what `handler` returns: a payload, `None` for an empty one, or a value for `codec`. It may be a coroutine.

        Requests are answered one after the other, until the responder or the client is closed. A handler that raises `ResponseFailure` tells
        the requester its sentence; of any other exception the requester learns only that the responder failed, and the event loop's
        exception handler gets it. A request comes at the QoS at which it was published, or at `qos` if that is lower, and its response goes out
        at the same.

        Raises `MqttError` as `subscribe`.
        """
        responder = Responder(self, self.subscribe(filters, qos=qos), handler, codec)
        await responder._begin()
        return responder

    async def connected(self) -> None:
        """Waits until there is a connection. Raises `MqttError` where the client is closed, or has given up."""
        async for event in self.events():
            if event.kind == CONNECTED:
                return
            if event.kind == ENDED:
                raise event.error or MqttError("closed")

    def events(self) -> AsyncIterator[Event]:
        """What happens to the connection, beginning with how it stands at this call. Ends after `ended`. Steps in between may be left out."""
        return _Events(self._core.watch(), self._bridge)

    async def reauthenticate(self) -> None:
        """Authenticates again on the connection that there is (section 4.12.1). Messages flow meanwhile.

        Raises `MqttError`: there is no `scram` or `authenticator`, no connection, or either side refuses.
        """
        await self._bridge.run(self._core.reauthenticate())

    def counters(self) -> dict[str, int]:
        """What has been counted since the client was made, by name."""
        return {**self._core.counters(), "late_responses": self._requests.late}

    async def close(self) -> None:
        """Ends the client: waits until all that was published is acknowledged, for 5 s at most, and says DISCONNECT. Loops over subscriptions
        end; what still waits fails with `closed`. The session ends with it, unless `session_expiry` was given. Again, it does nothing.
        """
        if self._is_closed:
            return
        self._is_closed = True
        self._requests.close()
        closing = self._bridge.run(self._core.close(self._settings.closing_expiry))
        try:
            await asyncio.wait_for(closing, CLOSE_TIMEOUT)
        except asyncio.TimeoutError:
            # An attempt to connect that nobody answers is under way. The client ends after it.
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
        """The attempt to connect has failed. When this returns the file of the store can be opened again."""
        if self._settings.settings["store"] is None:
            self._abandon()
        else:
            await self.close()

    def _abandon(self) -> None:
        """Ends it without waiting: there has been no connection."""
        self._is_closed = True
        self._bridge.stop()
        # Nobody waits for it: there is nobody to say goodbye to.
        self._core.close()


def _asking(settings: Options, loop: asyncio.AbstractEventLoop) -> Optional[Callable[[], tuple[Optional[str], Optional[bytes]]]]:
    """Asks for credentials on the thread of the native client; coroutines run on the loop meanwhile."""
    ask, timeout = settings.settings["credentials"], settings.settings["connect_timeout_s"]
    if ask is None:
        return None

    async def finish(given: Awaitable[Credentials]) -> Credentials:
        return await given

    def asked() -> tuple[Optional[str], Optional[bytes]]:
        given = ask()
        if inspect.isawaitable(given):
            running = asyncio.run_coroutine_threadsafe(finish(given), loop)
            try:
                given = running.result(timeout)
            finally:
                running.cancel()
        return credentials_of(given)

    return asked


class _Events:
    """What happens to the connection of one client."""

    def __init__(self, watch: _native.Watch, bridge: Bridge) -> None:
        self._watch = watch
        self._bridge = bridge
        self._history = History()
        # How it stands is known at once. Later it might be the loss of a connection that was never told.
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
