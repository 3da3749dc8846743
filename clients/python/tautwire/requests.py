"""Requests and responses for asyncio (section 4.10)."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import itertools
import secrets
from typing import TYPE_CHECKING, Any, Callable, Optional

from ._bridge import retrieve_exception
from ._native import Message
from .codecs import Codec
from .errors import MqttError, ResponseFailure

if TYPE_CHECKING:
    from .client import Client
    from .subscription import Subscription

REQUEST_TIMEOUT = 30.0
"""How long a request waits for its response, in seconds."""
RESPONSE_BASE = "tautwire/response"
NAME_BYTES = 12
NO_MATCHING_SUBSCRIBERS = 0x10
ERROR_PROPERTY = "error"
"""The user property with which a responder reports a failure."""
GENERIC_FAILURE = "the responder failed"
"""The message that a requester gets for an exception other than `ResponseFailure`."""


def response_topic() -> str:
    """Returns a unique response topic."""
    return f"{RESPONSE_BASE}/{secrets.token_hex(NAME_BYTES)}"


def failure(response: Message) -> Optional[MqttError]:
    """Returns the failure that the responder reports, if any. A response with a payload is a success, whatever user properties it has."""
    if response.payload:
        return None
    for name, message in response.user_properties:
        if name == ERROR_PROPERTY:
            return MqttError("request_failed", message)
    return None


def failure_message(error: BaseException) -> str:
    """Returns the message for the requester."""
    return error.message if isinstance(error, ResponseFailure) else GENERIC_FAILURE


def check_version(version: int) -> None:
    """Raises `not_supported` before MQTT 5.0, which has no properties."""
    if version != 5:
        raise MqttError("not_supported", "requests need MQTT 5.0")


class Requests:
    """The requests of a client, which share one response topic. Correlation data distinguishes them."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._topic = response_topic()
        self._numbers = itertools.count(1)
        self._waiting: dict[bytes, asyncio.Future[Message]] = {}
        self._responses: Optional[Subscription[Message]] = None
        self._listening: Optional[asyncio.Task[None]] = None
        self._subscribing: Optional[asyncio.Task[None]] = None
        self.late = 0
        """The number of late or duplicate responses."""

    async def request(self, topic: Any, payload: Any, *, timeout: float, **publishing: Any) -> Message:
        check_version(self._client.version)
        try:
            # The timeout includes the waits for a connection and for space in the queue.
            return await asyncio.wait_for(self._ask(topic, payload, publishing), timeout)
        except asyncio.TimeoutError:
            raise MqttError("request_timeout", f"{timeout:g} s") from None

    async def _ask(self, topic: Any, payload: Any, publishing: dict[str, Any]) -> Message:
        await self._listen()
        correlation = next(self._numbers).to_bytes(8, "big")
        response: asyncio.Future[Message] = self._client._bridge.loop.create_future()
        self._waiting[correlation] = response
        try:
            delivery = await self._client.enqueue(
                topic, payload, response_topic=self._topic, correlation_data=correlation, **publishing
            )
            delivery.add_done_callback(lambda done: self._delivered(done, response))
            return await response
        finally:
            self._waiting.pop(correlation, None)

    def close(self) -> None:
        """Fails all pending requests."""
        if self._responses is not None:
            # The session may outlive the client, but the next client uses another response topic.
            with contextlib.suppress(MqttError):
                self._responses._close()
        if self._listening is not None:
            self._listening.cancel()
        for response in self._waiting.values():
            if not response.done():
                response.set_exception(MqttError("closed"))

    async def _listen(self) -> None:
        """Subscribes to the response topic before the first request is sent."""
        if self._subscribing is None or (self._subscribing.done() and self._has_failed()):
            self._subscribing = asyncio.ensure_future(self._subscribe())
            self._subscribing.add_done_callback(retrieve_exception)
        await asyncio.shield(self._subscribing)

    def _has_failed(self) -> bool:
        is_over = self._listening is None or self._listening.done()
        return is_over or self._subscribing is None or self._subscribing.cancelled() or self._subscribing.exception() is not None

    async def _subscribe(self) -> None:
        # A response has the QoS of its request.
        responses = self._responses = await self._client.subscribe(self._topic, qos=2)
        self._listening = asyncio.ensure_future(self._receive(responses))

    async def _receive(self, responses: Subscription[Message]) -> None:
        try:
            async for message in responses:
                waiting = self._waiting.pop(message.correlation_data or b"", None)
                if waiting is None or waiting.done():
                    self.late += 1
                    continue
                failed = failure(message)
                if failed is None:
                    waiting.set_result(message)
                else:
                    waiting.set_exception(failed)
        except MqttError as error:
            for response in self._waiting.values():
                if not response.done():
                    response.set_exception(error)

    def _delivered(self, delivery: asyncio.Future[int], response: asyncio.Future[Message]) -> None:
        error = None if delivery.cancelled() else delivery.exception()
        if delivery.cancelled() or response.done():
            return
        if error is None and delivery.result() == NO_MATCHING_SUBSCRIBERS:
            error = MqttError("no_responder", None, NO_MATCHING_SUBSCRIBERS)
        if error is not None:
            response.set_exception(error)


class Responder:
    """Responds to requests until it is closed. Created by `Client.respond`; for `async with`, or `close`."""

    def __init__(
        self, client: Client, requests: Subscription[Any], handler: Callable[[Any], Any], codec: Optional[Codec[Any]]
    ) -> None:
        self._client = client
        self._requests = requests
        self._handler = handler
        self._codec = codec
        self._task: Optional[asyncio.Task[None]] = None

    async def __aenter__(self) -> Responder:
        return self

    async def __aexit__(self, raised: object, *_more: object) -> None:
        # After an exception, such as a cancelled task, do not wait for the server.
        await self._end(waits=raised is None)

    @property
    def granted(self) -> dict[str, int]:
        """The granted QoS of each filter; see `Subscription.granted`."""
        return self._requests.granted

    async def close(self) -> None:
        """Closes the responder. A request in progress is cancelled."""
        await self._end(waits=True)

    async def _end(self, waits: bool) -> None:
        # Close first, so that leaving the loop does not unsubscribe again.
        operation = self._requests._close()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        if waits:
            await self._requests._closed(operation)

    async def _begin(self) -> None:
        check_version(self._client.version)
        await self._requests
        self._task = asyncio.ensure_future(self._serve())

    async def _serve(self) -> None:
        try:
            async for request in self._requests:
                await self._answer(request)
        except MqttError as error:
            self._report(error)

    async def _answer(self, request: Any) -> None:
        message: Message = request if isinstance(request, Message) else request.message
        failure_text: Optional[str] = None
        payload: Any = b""
        try:
            value = self._handler(request)
            if inspect.isawaitable(value):
                value = await value
            payload = self._codec.encode(value) if self._codec is not None else b"" if value is None else value
        except Exception as error:
            failure_text = failure_message(error)
            if not isinstance(error, ResponseFailure):
                self._report(error)
        if message.response_topic is None:
            return
        try:
            await self._publish(message, payload, failure_text)
        except MqttError as error:
            self._report(error)

    async def _publish(self, message: Message, payload: Any, failure_text: Optional[str]) -> None:
        codec = self._codec if failure_text is None else None
        delivery = await self._client.enqueue(
            message.response_topic or "",
            payload,
            qos=message.qos,
            correlation_data=message.correlation_data,
            content_type=None if codec is None else codec.content_type,
            is_text=codec is not None and codec.is_text,
            user_properties=() if failure_text is None else ((ERROR_PROPERTY, failure_text),),
        )
        delivery.add_done_callback(self._published)

    def _published(self, delivery: asyncio.Future[int]) -> None:
        error = None if delivery.cancelled() else delivery.exception()
        if error is not None:
            self._report(error)

    def _report(self, error: BaseException) -> None:
        self._client._bridge.loop.call_exception_handler({"message": GENERIC_FAILURE, "exception": error})
