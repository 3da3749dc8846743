"""Requests and responses for threads (section 4.10)."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from typing import TYPE_CHECKING, Any, Callable, Optional

from .._native import Message
from ..codecs import Codec
from ..errors import MqttError, ResponseFailure
from ..requests import ERROR_PROPERTY, NO_MATCHING_SUBSCRIBERS, check_version, failure, failure_message, response_topic

if TYPE_CHECKING:
    from .client import Client
    from .subscription import Subscription

CHECK_S = 0.25
"""The interval at which a background thread checks whether the program is about to end."""


class Requests:
    """The requests of a client, which share one response topic and are identified by correlation data. A thread receives the responses."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._topic = response_topic()
        self._numbers = itertools.count(1)
        self._waiting: dict[bytes, Future[Message]] = {}
        # Locked while the first request subscribes, so that the second one waits for it.
        self._beginning = threading.Lock()
        self._responses: Optional[Subscription[Message]] = None
        self.late = 0
        """The number of late or duplicate responses."""

    def request(self, topic: Any, payload: Any, *, timeout: float, qos: int, **publishing: Any) -> Message:
        check_version(self._client.version)
        end = time.monotonic() + timeout
        correlation = next(self._numbers).to_bytes(8, "big")
        response: Future[Message] = Future()
        self._waiting[correlation] = response
        try:
            self._listen(end)
            delivery = self._client.enqueue(
                topic, payload, qos=qos, timeout=_left(end), response_topic=self._topic, correlation_data=correlation, **publishing
            )
            if qos > 0 and delivery.wait(_left(end)) == NO_MATCHING_SUBSCRIBERS and not response.done():
                raise MqttError("no_responder", None, NO_MATCHING_SUBSCRIBERS)
            return response.result(_left(end))
        except (TimeoutError, FutureTimeout):
            raise MqttError("request_timeout", f"{timeout:g} s") from None
        finally:
            self._waiting.pop(correlation, None)

    def close(self) -> None:
        """Fails all pending requests."""
        responses = self._responses
        if responses is not None:
            # The session may outlive the client, but the next client uses another response topic.
            with contextlib.suppress(MqttError):
                responses._close()
        self._fail(MqttError("closed"))

    def _listen(self, end: float) -> None:
        if not self._beginning.acquire(timeout=_left(end)):
            raise TimeoutError
        try:
            if self._responses is None:
                # A response has the QoS of its request.
                self._responses = self._client.subscribe(self._topic, qos=2, timeout=_left(end))
                serve("tautwire-responses", self._responses, self._receive, self._fail)
        finally:
            self._beginning.release()

    def _receive(self, message: Message) -> None:
        waiting = self._waiting.pop(message.correlation_data or b"", None)
        if waiting is None:
            self.late += 1
            return
        failed = failure(message)
        if failed is None:
            waiting.set_result(message)
        else:
            waiting.set_exception(failed)

    def _fail(self, error: Optional[MqttError]) -> None:
        self._responses = None
        while self._waiting:
            _, waiting = self._waiting.popitem()
            waiting.set_exception(error or MqttError("closed"))


class Responder:
    """Responds to requests on a separate thread until it is closed. Created by `Client.respond`; for `with`, or `close`."""

    def __init__(
        self, client: Client, requests: Subscription[Any], handler: Callable[[Any], Any], codec: Optional[Codec[Any]]
    ) -> None:
        self._client = client
        self._requests = requests
        self._handler = handler
        self._codec = codec
        serve("tautwire-responder", requests, self._answer, self._ended)

    def __enter__(self) -> Responder:
        return self

    def __exit__(self, raised: object, *_more: object) -> None:
        if raised is None:
            self.close()
            return
        # After an exception, such as Ctrl-C, do not wait for the server.
        with contextlib.suppress(MqttError):
            self._requests._close()

    @property
    def granted(self) -> dict[str, int]:
        """The granted QoS of each filter; see `Subscription.granted`."""
        return self._requests.granted

    def close(self) -> None:
        """Closes the responder. A request in progress is completed."""
        self._requests.unsubscribe()

    def _answer(self, request: Any) -> None:
        message: Message = request if isinstance(request, Message) else request.message
        failure_text: Optional[str] = None
        payload: Any = b""
        try:
            value = self._handler(request)
            payload = self._codec.encode(value) if self._codec is not None else b"" if value is None else value
        except Exception as error:
            failure_text = failure_message(error)
            if not isinstance(error, ResponseFailure):
                report(error)
        if message.response_topic is None:
            return
        codec = self._codec if failure_text is None else None
        try:
            self._client.enqueue(
                message.response_topic,
                payload,
                qos=message.qos,
                correlation_data=message.correlation_data,
                content_type=None if codec is None else codec.content_type,
                is_text=codec is not None and codec.is_text,
                user_properties=() if failure_text is None else ((ERROR_PROPERTY, failure_text),),
            )
        except MqttError as error:
            report(error)

    def _ended(self, error: Optional[MqttError]) -> None:
        if error is not None:
            report(error)


def _left(end: float) -> float:
    return min(max(0.0, end - time.monotonic()), threading.TIMEOUT_MAX)


def serve(
    name: str,
    messages: Subscription[Any],
    handle: Callable[[Any], None],
    ended: Callable[[Optional[MqttError]], None],
) -> None:
    """Handles messages on a thread, until there are no more, or the program is about to end."""
    program = threading.main_thread()

    def run() -> None:
        while program.is_alive():
            try:
                message = messages.next(CHECK_S)
            except TimeoutError:
                continue
            except MqttError as error:
                ended(None if error.code in ("unsubscribed", "closed") else error)
                return
            handle(message)

    # Not a daemon thread, which Python could stop inside native code. It checks for the end of the program itself.
    threading.Thread(target=run, name=name).start()


def report(error: BaseException) -> None:
    """Reports an exception like an uncaught exception of a thread."""
    threading.excepthook(threading.ExceptHookArgs((type(error), error, error.__traceback__, threading.current_thread())))
