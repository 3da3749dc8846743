"""How a client connects and behaves. All times are in seconds."""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import secrets
import ssl
from dataclasses import dataclass, field
from typing import Any, Awaitable, Callable, Mapping, Optional, Protocol, Sequence, TypedDict, TypeVar, Union
from urllib.parse import SplitResult, unquote, urlsplit

from .errors import MqttError

Payload = Union[bytes, bytearray, memoryview, str]
UserProperties = Union[Mapping[str, str], Sequence[tuple[str, str]]]

SESSION_EXPIRY = 300
"""How long the server keeps the session after a connection is lost, by default."""
CONNECT_TIMEOUT = 20.0
"""The time from the first byte of an attempt to connect to the server's response."""
RECONNECT = (0.5, 30.0)
"""The delay after the first failed attempt, and the maximum delay."""
QUEUE_MESSAGES = 10_000
"""The maximum number of queued messages."""
QUEUE_BYTES = 16 << 20
"""Bytes of those messages."""
IN_FLIGHT = 1000
"""The maximum number of QoS 1 and 2 messages in flight."""
RECEIVE_MAXIMUM = 1000
"""QoS 1 and 2 messages that the server may send before they are acknowledged."""
CLOSE_TIMEOUT = 8.0
"""The maximum time of `close`: 5 s for acknowledgements, 2 s for the server to close, and some slack."""
KEEP_ALIVE = 60
"""The keep alive."""

U16_MAX = 0xFFFF
U32_MAX = 0xFFFF_FFFF
CLIENT_ID_BYTES = 7

SCHEMES = ("mqtt", "mqtts", "ws", "wss")
SECURE = ("mqtts://", "ssl://", "wss://")
WEBSOCKET = ("ws://", "wss://")

OPTIONS = "invalid_options"
ARGUMENT = "invalid_argument"
"""The error codes for invalid options and invalid arguments."""

# Names that other clients use for the same option.
ALIASES = {
    "username": "user_name",
    "user": "user_name",
    "passwd": "password",
    "clientid": "client_id",
    "identifier": "client_id",
    "keepalive": "keep_alive",
    "clean_session": "clean_start",
    "protocol": "version",
    "protocol_version": "version",
    "tls_params": "tls",
    "tls_context": "tls",
    "ssl": "tls",
    "max_queued_outgoing_messages": "queue_messages",
    "max_inflight_messages": "in_flight",
    "timeout": "connect_timeout",
    "session_expiry_interval": "session_expiry",
    "properties": "user_properties",
    "headers": "websocket_headers",
    "auth": "credentials",
}


@dataclass(frozen=True)
class Will:
    """The message that the server publishes when the connection is lost (section 3.1.2.5).

    `delay` and `expiry` are in seconds. `delay`, `expiry`, `content_type` and `user_properties` need MQTT 5.0.
    """

    topic: str
    payload: Payload = field(default=b"", repr=False)
    qos: int = 0
    retain: bool = False
    delay: Optional[int] = None
    expiry: Optional[int] = None
    content_type: Optional[str] = None
    user_properties: UserProperties = ()


@dataclass(frozen=True)
class Tls:
    """TLS options for `mqtts://` and `wss://`. Default: the system's authorities, and no client certificate.

    Files are PEM. `ca_file` replaces the system's authorities. `crl_file` has certificate revocation lists. `cert_file` and `key_file` are the
    client certificate with its chain, and its key, which must not be encrypted. `server_name` is the name that the server's certificate must
    contain, by default the host of the address. `alpn` lists protocols in order of preference.
    """

    ca_file: Optional[Union[str, os.PathLike[str]]] = None
    cert_file: Optional[Union[str, os.PathLike[str]]] = None
    key_file: Optional[Union[str, os.PathLike[str]]] = None
    crl_file: Optional[Union[str, os.PathLike[str]]] = None
    server_name: Optional[str] = None
    alpn: Sequence[str] = ()
    dangerously_accept_any_certificate: bool = False
    """Accepts any certificate of the server. An attacker on the network can read and change everything: only for tests."""

    def settings(self) -> dict[str, Any]:
        if (self.cert_file is None) != (self.key_file is None):
            raise MqttError("invalid_options", "cert_file and key_file must be set together")
        files = None
        if self.cert_file is not None and self.key_file is not None:
            files = (os.fspath(self.cert_file), os.fspath(self.key_file))
        return {
            "ca_file": None if self.ca_file is None else os.fspath(self.ca_file),
            "crl_file": None if self.crl_file is None else os.fspath(self.crl_file),
            "identity_files": files,
            "server_name": self.server_name,
            "alpn": list(self.alpn),
            "accepts_any_certificate": self.dangerously_accept_any_certificate,
        }


@dataclass(frozen=True)
class Credentials:
    """User name and password of one connection. A password without a user name, such as a token, needs MQTT 5.0."""

    user_name: Optional[str] = None
    password: Optional[Union[str, bytes]] = field(default=None, repr=False)


class Authenticator(Protocol):
    """The client's side of an extended authentication with AUTH packets (section 4.12). MQTT 5.0.

    It is called on a thread of the client, and may block. An exception ends the connection as the cause of `callback_failed`; an
    `MqttError` with the code `authentication_failed` ends the client, because a retry would fail, too. `data` is `None` if the server sent none.
    """

    @property
    def method(self) -> str:
        """The name of the method, such as `GS2-KRB5`. It must not change."""
        ...

    def begin(self) -> Optional[bytes]:
        """Starts an exchange. Returns the data for CONNECT, or for the AUTH of a re-authentication."""
        ...

    def respond(self, data: Optional[bytes]) -> Optional[bytes]:
        """Returns the response to the data of an AUTH from the server."""
        ...

    def finish(self, data: Optional[bytes]) -> None:
        """Called when the server has accepted, with its final data. Checks the proof of the server, if the method has one."""
        ...


CredentialsSource = Callable[[], Union[Credentials, Awaitable[Credentials]]]


@dataclass(frozen=True)
class FileStore:
    """Persists QoS 1 and 2 messages in the file `path` until they are acknowledged, across a crash of the process or the machine.

    The next process that opens the file sends the messages that were not acknowledged, with their previous packet identifiers:
    a QoS 2 message is still delivered once. The file belongs to one session and contains its client identifier. One client at a time can have it
    open. Next to it there are a file with the suffix `.lock`, and temporarily one with `.new`.
    """

    path: Union[str, os.PathLike[str]]


class ConnectOptions(TypedDict, total=False):
    """The options of `connect` and `start`. Times are in seconds."""

    version: int
    """4 for MQTT 3.1.1, 5 for MQTT 5.0. Default: 5."""
    client_id: Optional[str]
    """Names the session. Default: that of the store, or a random one. If it is empty, the server assigns one."""
    clean_start: Optional[bool]
    """Whether the first connection discards an existing session; later ones resume it. Default: `True`; with a store `False`,
    which it must be."""
    session_expiry: Optional[int]
    """How long the server keeps the session after a connection is lost. Default: 300, and `close` ends the session,
    unless there is a store."""
    keep_alive: int
    """The keep alive; 0 disables it. Default: 60."""
    user_name: Optional[str]
    password: Optional[Union[str, bytes]]
    credentials: Optional[CredentialsSource]
    """A function that returns user name and password for each attempt to connect, for tokens that expire. It runs on a thread of the client and
    may block; a coroutine runs on the event loop. An exception is the cause of `callback_failed`, and the next
    attempt calls it again. Its time is part of `connect_timeout`."""
    scram: Optional[str]
    """`"sha256"` or `"sha512"`: authenticates with SCRAM, which never sends the password. MQTT 5.0."""
    authenticator: Optional[Authenticator]
    """A custom extended authentication. MQTT 5.0."""
    will: Optional[Will]
    """The message that the server publishes when the connection is lost."""
    tls: Optional[Tls]
    """TLS options for `mqtts://` and `wss://`."""
    websocket_headers: UserProperties
    """HTTP headers of the WebSocket handshake for `ws://` and `wss://`, at most 8 KiB."""
    connect_timeout: float
    """The timeout of an attempt to connect, up to the server's response. Default: 20."""
    reconnect: Optional[tuple[float, float]]
    """The delay after the first failed attempt and the maximum delay; `None` disables reconnection. Default: (0.5, 30)."""
    queue_messages: int
    """The maximum number of queued messages; `publish` waits if it is reached. Default: 10,000."""
    queue_bytes: int
    """The maximum size of the queued messages. Default: 16 MiB."""
    in_flight: int
    """The maximum number of QoS 1 and 2 messages in flight. Default: 1,000."""
    receive_maximum: int
    """QoS 1 and 2 messages that the server may send before they are acknowledged. Default: 1,000."""
    maximum_packet_bytes: Optional[int]
    """The maximum size of packets from the server. Default: the limit of MQTT."""
    topic_alias_maximum: int
    """Topic aliases that the server may use. Default: 0."""
    topic_aliases: int
    """How many of the first published topics get an alias, up to the limit of the server. Default: 0."""
    user_properties: UserProperties
    """The user properties of CONNECT."""
    store: Optional[FileStore]
    """Persists QoS 1 and 2 messages beyond the process. Default: they are only in memory."""


class PublishOptions(TypedDict, total=False):
    """The options of `Client.publish`."""

    qos: int
    retain: bool
    expiry: Optional[int]
    """The lifetime in seconds."""
    content_type: Optional[str]
    is_text: bool
    response_topic: Optional[str]
    correlation_data: Optional[bytes]
    user_properties: UserProperties


class SubscribeOptions(TypedDict, total=False):
    """The options of `Client.subscribe`."""

    qos: int
    no_local: bool
    retain_as_published: bool
    retain_handling: int
    identifier: Optional[int]
    manual_acknowledgement: bool
    capacity: int
    overflow: str
    user_properties: UserProperties


F = TypeVar("F", bound=Callable[..., Any])


def refuses_unknown(function: F) -> F:
    """Refuses unknown options with a suggestion."""
    parameters = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(*positional: Any, **named: Any) -> Any:
        for name in named:
            if name not in parameters:
                alias = ALIASES.get(name)
                close = [alias] if alias in parameters else difflib.get_close_matches(name, parameters, 1)
                hint = f"; did you mean {close[0]}?" if close else ""
                raise MqttError("invalid_options", f"there is no option {name}{hint}")
        return function(*positional, **named)

    return checked  # type: ignore[return-value]


@dataclass(frozen=True)
class Options:
    """The validated options of `connect`, converted for the native client."""

    settings: Mapping[str, Any] = field(repr=False)
    closing_expiry: Optional[int]
    """The session expiry in DISCONNECT; `None` does not change it."""
    outlives: bool
    """Whether the session and its subscriptions outlive the client."""


@refuses_unknown
def options(
    address: str,
    *,
    version: int = 5,
    client_id: Optional[str] = None,
    clean_start: Optional[bool] = None,
    session_expiry: Optional[int] = None,
    keep_alive: int = KEEP_ALIVE,
    user_name: Optional[str] = None,
    password: Optional[Union[str, bytes]] = None,
    credentials: Optional[CredentialsSource] = None,
    scram: Optional[str] = None,
    authenticator: Optional[Authenticator] = None,
    will: Optional[Will] = None,
    tls: Optional[Tls] = None,
    websocket_headers: UserProperties = (),
    connect_timeout: float = CONNECT_TIMEOUT,
    reconnect: Optional[tuple[float, float]] = RECONNECT,
    queue_messages: int = QUEUE_MESSAGES,
    queue_bytes: int = QUEUE_BYTES,
    in_flight: int = IN_FLIGHT,
    receive_maximum: int = RECEIVE_MAXIMUM,
    maximum_packet_bytes: Optional[int] = None,
    topic_alias_maximum: int = 0,
    topic_aliases: int = 0,
    user_properties: UserProperties = (),
    store: Optional[FileStore] = None,
) -> Options:
    """Checks the options. Raises `MqttError` with the code `invalid_options`."""
    where, user_of_url, password_of_url = split_address(address)
    user_name = user_name if user_name is not None else user_of_url
    password = password if password is not None else password_of_url
    if version not in (4, 5):
        raise wrong("version", version, "4 for MQTT 3.1.1, or 5")
    if isinstance(tls, ssl.SSLContext) or (tls is not None and not isinstance(tls, Tls)):
        raise MqttError("invalid_options", "tls must be a tautwire.Tls")
    if tls is not None and not where.startswith(SECURE):
        # Otherwise the connection would be unencrypted without notice.
        raise MqttError("invalid_options", "tls needs an mqtts:// or wss:// address")
    if websocket_headers and not where.startswith(WEBSOCKET):
        raise MqttError("invalid_options", f"websocket_headers need a {' or '.join(WEBSOCKET)} address")
    if will is not None and not isinstance(will, Will):
        raise MqttError("invalid_options", "will must be a tautwire.Will")
    if scram not in (None, "sha256", "sha512"):
        raise MqttError("invalid_options", "scram must be 'sha256' or 'sha512'")
    if scram is not None and (version != 5 or not user_name or not password):
        raise MqttError("invalid_options", "scram needs MQTT 5.0, a user name and a password")
    if credentials is not None and not callable(credentials):
        raise MqttError("invalid_options", "credentials must be a function that returns tautwire.Credentials")
    if credentials is not None and (user_name, password, scram) != (None, None, None):
        raise MqttError("invalid_options", "credentials cannot be combined with user_name, password or scram")
    if authenticator is not None and (version != 5 or scram is not None):
        raise MqttError("invalid_options", "an authenticator needs MQTT 5.0, and cannot be combined with scram")
    if store is not None and not isinstance(store, FileStore):
        raise MqttError("invalid_options", "store must be a tautwire.FileStore")
    if store is not None and clean_start:
        raise MqttError("invalid_options", "a store resumes its session, which clean_start would discard")
    if client_id is None and store is None:
        client_id = _client_id()
    expiry = SESSION_EXPIRY if session_expiry is None else session_expiry
    settings = {
        "address": where,
        "version": version,
        "client_id": None if client_id is None else text("client_id", client_id),
        "clean_start": store is None if clean_start is None else bool(clean_start),
        "session_expiry_s": whole("session_expiry", expiry, 0, U32_MAX),
        "keep_alive_s": whole("keep_alive", keep_alive, 0, U16_MAX),
        "user_name": None if user_name is None else text("user_name", user_name),
        "password": None if password is None else binary("password", password),
        "scram": scram,
        "will": None if will is None else _will(will),
        "tls": None if tls is None else tls.settings(),
        "receive_maximum": whole("receive_maximum", receive_maximum, 1, U16_MAX),
        "maximum_packet_bytes": None
        if maximum_packet_bytes is None
        else whole("maximum_packet_bytes", maximum_packet_bytes, 1, U32_MAX),
        "topic_alias_maximum": whole("topic_alias_maximum", topic_alias_maximum, 0, U16_MAX),
        "topic_aliases": whole("topic_aliases", topic_aliases, 0, U16_MAX),
        "user_properties": pairs("user_properties", user_properties),
        "connect_timeout_s": seconds("connect_timeout", connect_timeout),
        "reconnect_s": None if reconnect is None else _reconnect(reconnect),
        "queue_messages": whole("queue_messages", queue_messages, 1, U32_MAX),
        "queue_bytes": whole("queue_bytes", queue_bytes, 1, U32_MAX),
        "in_flight": whole("in_flight", in_flight, 1, U16_MAX),
        "store": None if store is None else os.fspath(store.path),
        "websocket_headers": pairs("websocket_headers", websocket_headers),
        "credentials": credentials,
        "authenticator": None if authenticator is None else _authenticator(authenticator),
    }
    # Without session_expiry and store, the session ends with the client.
    closing_expiry = 0 if version == 5 and session_expiry is None and store is None else None
    outlives = expiry > 0 and closing_expiry is None if version == 5 else not settings["clean_start"]
    return Options(settings, closing_expiry, outlives)


def credentials_of(given: object) -> tuple[Optional[str], Optional[bytes]]:
    """Converts the result of a credentials function for the native client."""
    if inspect.iscoroutine(given):
        given.close()
        raise TypeError("a coroutine function for credentials needs the asyncio client")
    if not isinstance(given, Credentials):
        raise TypeError(f"the credentials function must return tautwire.Credentials, not {type(given).__name__}")
    return given.user_name, given.password.encode() if isinstance(given.password, str) else given.password


def split_address(address: str) -> tuple[str, Optional[str], Optional[str]]:
    """Returns the address without user name and password, and these. Errors never contain them."""
    if not isinstance(address, str):
        raise MqttError("invalid_options", "the address must be a str such as mqtt://127.0.0.1:1883")
    if address.startswith(("unix:", "mqtt+unix://")):
        return address, None, None
    if not address:
        raise MqttError("invalid_options", "the address is empty; write it as mqtt://HOST:PORT")
    if "://" not in address:
        # The part before @ may be a secret.
        shown = address.rpartition("@")[2]
        raise MqttError("invalid_options", f"{shown} has no scheme; write it as mqtt://{shown}")
    try:
        parts = urlsplit(address)
        # Reading the port checks that it is a number.
        parts.port  # noqa: B018
    except ValueError:
        raise MqttError("invalid_options", "the address is invalid; write it as mqtt://HOST:PORT") from None
    if parts.scheme not in (*SCHEMES, "tcp", "ssl"):
        raise MqttError("invalid_options", f"the scheme {parts.scheme} is not one of {', '.join(SCHEMES)}")
    user_name = None if parts.username is None else unquote(parts.username)
    password = None if parts.password is None else unquote(parts.password)
    return _without_user(address, parts), user_name, password


def _without_user(address: str, parts: SplitResult) -> str:
    if "@" not in parts.netloc:
        # The scheme may be in upper case.
        return parts.scheme + address[len(parts.scheme) :]
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _client_id() -> str:
    """Returns a random identifier of at most 23 characters, which every server must accept [MQTT-3.1.3-5]."""
    return f"tautwire-{secrets.token_hex(CLIENT_ID_BYTES)}"


def _will(will: Will) -> dict[str, Any]:
    extra = {
        "expiry_s": None if will.expiry is None else whole("will.expiry", will.expiry, 0, U32_MAX),
        "content_type": None if will.content_type is None else text("will.content_type", will.content_type),
        "is_text": isinstance(will.payload, str) and (will.expiry, will.content_type) != (None, None),
        "response_topic": None,
        "correlation_data": None,
        "user_properties": pairs("will.user_properties", will.user_properties),
    }
    has_extra = will.expiry is not None or will.content_type is not None or len(will.user_properties) > 0
    return {
        "topic": text("will.topic", will.topic),
        "payload": binary("will.payload", will.payload),
        "qos": whole("will.qos", will.qos, 0, 2),
        "retain": will.retain,
        "delay_s": None if will.delay is None else whole("will.delay", will.delay, 0, U32_MAX),
        "extra": extra if has_extra else None,
    }


def _authenticator(authenticator: Authenticator) -> tuple[str, Authenticator]:
    for name in ("begin", "respond", "finish"):
        if not callable(getattr(authenticator, name, None)):
            raise MqttError("invalid_options", f"the authenticator has no method {name}")
    method = getattr(authenticator, "method", None)
    if not isinstance(method, str):
        raise MqttError("invalid_options", "the method of an authenticator must be a str")
    return method, authenticator


def _reconnect(pauses: tuple[float, float]) -> tuple[float, float]:
    try:
        first, longest = pauses
    except (TypeError, ValueError):
        raise MqttError("invalid_options", "reconnect must be the first and the maximum delay, in seconds") from None
    if seconds("reconnect", longest) < seconds("reconnect", first):
        raise MqttError("invalid_options", "the maximum delay of reconnect is shorter than the first")
    return float(first), float(longest)


def whole(name: str, value: object, least: int, most: int, code: str = OPTIONS) -> int:
    """Checks an integer within its range."""
    if isinstance(value, int) and least <= value <= most:
        return int(value)
    raise wrong(name, value, f"an integer from {least} to {most}", code)


def seconds(name: str, value: object) -> float:
    """Checks a time of zero or more seconds."""
    if isinstance(value, (int, float)) and value >= 0:
        return float(value)
    raise wrong(name, value, "a number of seconds")


def text(name: str, value: object, code: str = OPTIONS) -> str:
    """Checks a string that UTF-8 can encode."""
    if not isinstance(value, str):
        raise wrong(name, value, "a str", code)
    try:
        value.encode()
    except UnicodeEncodeError:
        # The value is not shown, because it may be a secret.
        raise MqttError(code, f"{name} contains a lone surrogate, which UTF-8 cannot encode") from None
    return value


def binary(name: str, value: object, code: str = OPTIONS) -> bytes:
    """Checks bytes, or encodes a string."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, str):
        return text(name, value, code).encode()
    raise wrong(name, value, "bytes or a str", code)


def pairs(name: str, properties: UserProperties, code: str = OPTIONS) -> list[tuple[str, str]]:
    """Checks names and values, such as those of user properties."""
    given = properties.items() if isinstance(properties, Mapping) else properties
    try:
        listed = [(one, value) for one, value in given]
    except (TypeError, ValueError):
        raise MqttError(code, f"{name} must be a mapping of names to values, or a sequence of pairs") from None
    return [(text(f"a name of {name}", one, code), text(f"a value of {name}", value, code)) for one, value in listed]


def wrong(name: str, value: object, wanted: str, code: str = OPTIONS) -> MqttError:
    """Returns the error for an invalid option. Only numbers are shown, because other values may be secrets."""
    shown = repr(value) if isinstance(value, (int, float)) else type(value).__name__
    return MqttError(code, f"{name} must be {wanted}, not {shown}")
