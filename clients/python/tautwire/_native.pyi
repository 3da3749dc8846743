# The native module, which the package uses. It is not part of the public interface.

from typing import Any, Mapping, Optional, Union

Payload = Union[bytes, bytearray, memoryview, str]

def after_fork_in_child() -> None: ...

class Operation:
    def start(self, inbox: Inbox, key: int) -> Optional[tuple[Any, Optional[BaseException]]]: ...
    def wait(self, timeout_s: Optional[float] = None) -> Any: ...

class Inbox:
    def __new__(cls) -> Inbox: ...
    def fileno(self) -> Optional[int]: ...
    def wait(self, timeout_s: float) -> bool: ...
    def drain(self) -> list[tuple[int, tuple[Any, Optional[BaseException]]]]: ...
    def forget(self, key: int) -> None: ...

class Message:
    """A received message."""

    @property
    def topic(self) -> str:
        """The topic name."""

    @property
    def payload(self) -> bytes:
        """The payload."""

    @property
    def text(self) -> str:
        """The payload as UTF-8 text. Raises `payload_invalid` if it is not UTF-8."""

    @property
    def qos(self) -> int:
        """The QoS of the message."""

    @property
    def retain(self) -> bool:
        """Whether it was retained before the subscription; with Retain As Published, the flag of the publisher."""

    @property
    def duplicate(self) -> bool:
        """Whether the server may have sent it before (DUP)."""

    @property
    def content_type(self) -> Optional[str]:
        """The type of the payload, such as a MIME type."""

    @property
    def is_text(self) -> bool:
        """Whether the payload format indicator says that the payload is UTF-8 text."""

    @property
    def response_topic(self) -> Optional[str]:
        """The topic for the response."""

    @property
    def correlation_data(self) -> Optional[bytes]:
        """Identifies the request of a response."""

    @property
    def expiry(self) -> Optional[int]:
        """The remaining lifetime, in seconds."""

    @property
    def user_properties(self) -> list[tuple[str, str]]:
        """Names and values, in order."""

    @property
    def subscription_identifiers(self) -> list[int]:
        """The identifiers of the matching subscriptions."""

class Subscription:
    def take(self, inbox: Inbox, key: int, most: int) -> Optional[list[Message]]: ...
    def take_waiting(self, most: int, timeout_s: Optional[float] = None) -> Optional[list[Message]]: ...
    def granted(self) -> list[tuple[str, int]]: ...
    def dropped(self) -> int: ...
    def ended(self) -> Optional[BaseException]: ...
    def leave(self, unhandled: list[Message]) -> None: ...
    def close(self) -> Optional[Operation]: ...

class Watch:
    def next(self) -> Operation: ...

class Client:
    @staticmethod
    def start(settings: Mapping[str, Any]) -> Client: ...
    def publish(
        self, topic: str, payload: Payload, qos: int, retain: bool, extra: Optional[Mapping[str, Any]]
    ) -> Optional[Operation]: ...
    def publish_when_room(
        self, topic: str, payload: Payload, qos: int, retain: bool, extra: Optional[Mapping[str, Any]]
    ) -> Operation: ...
    def subscribe(self, settings: Mapping[str, Any]) -> Operation: ...
    def acknowledge(self, message: Message) -> None: ...
    def acknowledge_with_next(self, message: Message) -> None: ...
    def flush(self) -> None: ...
    def watch(self) -> Watch: ...
    def reauthenticate(self) -> Operation: ...
    def close(self, session_expiry_s: Optional[int] = None) -> Operation: ...
    @property
    def client_id(self) -> str: ...
    def counters(self) -> dict[str, int]: ...
