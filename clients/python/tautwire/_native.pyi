# The native module: what the rest of the package is built on, and no part of its interface.

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
    """A message received."""

    @property
    def topic(self) -> str:
        """The topic name."""

    @property
    def payload(self) -> bytes:
        """The payload."""

    @property
    def text(self) -> str:
        """The payload as UTF-8 text. Raises `payload_invalid` where it is none."""

    @property
    def qos(self) -> int:
        """The QoS at which it came."""

    @property
    def retain(self) -> bool:
        """Whether it was there before the subscription; with Retain As Published, the flag of its publisher."""

    @property
    def duplicate(self) -> bool:
        """Whether the server says that it may have come before."""

    @property
    def content_type(self) -> Optional[str]:
        """What the payload is, such as a MIME type."""

    @property
    def is_text(self) -> bool:
        """Whether the publisher says that the payload is UTF-8 text."""

    @property
    def response_topic(self) -> Optional[str]:
        """Where a response is expected."""

    @property
    def correlation_data(self) -> Optional[bytes]:
        """Tells the requester which request a response belongs to."""

    @property
    def expiry(self) -> Optional[int]:
        """The rest of its lifetime, in seconds."""

    @property
    def user_properties(self) -> list[tuple[str, str]]:
        """Names and values, in their order."""

    @property
    def subscription_identifiers(self) -> list[int]:
        """The identifiers of the subscriptions that it matched."""

class Subscription:
    def take(self, inbox: Inbox, key: int, most: int) -> Optional[list[Message]]: ...
    def take_waiting(self, most: int, timeout_s: Optional[float] = None) -> Optional[list[Message]]: ...
    def granted(self) -> list[tuple[str, int]]: ...
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
