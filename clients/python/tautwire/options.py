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
"""How long the server keeps the session after a connection is lost, unless the application says otherwise."""
CONNECT_TIMEOUT = 20.0
"""From the first byte of an attempt to connect to the server's answer."""
RECONNECT = (0.5, 30.0)
"""The pause after the first failed attempt, and the longest."""
QUEUE_MESSAGES = 10_000
"""Messages that may wait to be sent."""
QUEUE_BYTES = 16 << 20
"""Bytes of those messages."""
IN_FLIGHT = 1000
"""QoS 1 and 2 messages that may be sent and not acknowledged yet."""
RECEIVE_MAXIMUM = 1000
"""QoS 1 and 2 messages that the server may send before they are acknowledged."""
CLOSE_TIMEOUT = 8.0
"""`close` waits so long at most: 5 s for acknowledgements, 2 s for the server to close, and a little more."""
KEEP_ALIVE = 60
"""The longest silence of the client."""

U16_MAX = 0xFFFF
U32_MAX = 0xFFFF_FFFF
CLIENT_ID_BYTES = 7

SCHEMES = ("mqtt", "mqtts", "ws", "wss")
SECURE = ("mqtts://", "ssl://", "wss://")
WEBSOCKET = ("ws://", "wss://")

OPTIONS = "invalid_options"
ARGUMENT = "invalid_argument"
"""Codes of what is wrong: with a client's options, or with a call."""

# Names that other clients use for the same thing.
KNOWN_AS = {
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
    """The message that the server publishes when the client is gone without a word (section 3.1.2.5).

    `delay` and `expiry` are in seconds. They, `content_type` and `user_properties` need MQTT 5.0.
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
    """Whom to trust and who to be, for `mqtts://` and `wss://`. By default the system's authorities, and nobody in particular.

    Files are PEM. `ca_file` replaces the system's authorities. `crl_file` lists revoked certificates. `cert_file` and `key_file` are the
    certificate of this client with its chain, and its key, which is not encrypted. `server_name` is the name that the server's certificate must
    have, where it is not the host of the address. `alpn` lists protocols, the preferred one first.
    """

    ca_file: Optional[Union[str, os.PathLike[str]]] = None
    cert_file: Optional[Union[str, os.PathLike[str]]] = None
    key_file: Optional[Union[str, os.PathLike[str]]] = None
    crl_file: Optional[Union[str, os.PathLike[str]]] = None
    server_name: Optional[str] = None
    alpn: Sequence[str] = ()
    dangerously_accept_any_certificate: bool = False
    """Takes any certificate of anybody for the server's. Whoever is on the way can read and change everything: only for trying things."""

    def settings(self) -> dict[str, Any]:
        if (self.cert_file is None) != (self.key_file is None):
            raise MqttError("invalid_options", "cert_file and key_file belong together")
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
    """Who a client is, for one connection. A password without a user name, such as a token, needs MQTT 5.0."""

    user_name: Optional[str] = None
    password: Optional[Union[str, bytes]] = field(default=None, repr=False)


class Authenticator(Protocol):
    """This client's side of an extended authentication by AUTH packets (section 4.12). MQTT 5.0.

    It is called on a thread of the client, and may block. What it raises is the cause of `callback_failed`, and ends the connection; an
    `MqttError` with the code `authentication_failed` ends the client, because trying again cannot help. `data` is `None` where the server sent none.
    """

    @property
    def method(self) -> str:
        """Name of the method, such as `GS2-KRB5`. It stays the same."""
        ...

    def begin(self) -> Optional[bytes]:
        """The data that goes with CONNECT, or with the AUTH that begins a re-authentication. An exchange begins anew."""
        ...

    def respond(self, data: Optional[bytes]) -> Optional[bytes]:
        """The answer to what the server sent in AUTH."""
        ...

    def finish(self, data: Optional[bytes]) -> None:
        """The server says that the exchange has succeeded, with its last data. Here its proof is checked, if it owes one."""
        ...


CredentialsSource = Callable[[], Union[Credentials, Awaitable[Credentials]]]


@dataclass(frozen=True)
class FileStore:
    """Keeps messages of QoS 1 and 2 in the file `path` until they are acknowledged, safe against a crash of the process or the machine.

    Messages that were not acknowledged when a process ended are sent by the next one that opens the file, with the packet identifiers of before:
    a QoS 2 message is still delivered once. The file belongs to one session, so its client identifier is in it. One client at a time may have it
    open. Beside it there is a file with the ending `.lock`, and at times one with `.new`.
    """

    path: Union[str, os.PathLike[str]]


class ConnectOptions(TypedDict, total=False):
    """What can be said to `connect` and `start` besides the address. Times are in seconds."""

    version: int
    """4 for MQTT 3.1.1, 5 for MQTT 5.0. Default: 5."""
    client_id: Optional[str]
    """Names the session. Default: that of the store, or a random one. Empty lets the server choose."""
    clean_start: Optional[bool]
    """Whether a session that the server has is discarded at the first connection; later ones resume it. Default: `True`; with a store `False`,
    which it must be."""
    session_expiry: Optional[int]
    """How long the server keeps the session after a connection is lost. Default: 300, and `close` ends the session then,
    unless there is a store."""
    keep_alive: int
    """The longest silence of the client; 0 turns it off. Default: 60."""
    user_name: Optional[str]
    password: Optional[Union[str, bytes]]
    credentials: Optional[CredentialsSource]
    """Is asked for user name and password at each attempt to connect, such as for a token that expires. It runs on a thread of the client and
    may block; the coroutine of a coroutine function runs on the event loop. What it raises is the cause of `callback_failed`, and the next
    attempt asks again. The time that it takes is part of `connect_timeout`."""
    scram: Optional[str]
    """`"sha256"` or `"sha512"`: the password is proved by SCRAM and never sent. MQTT 5.0."""
    authenticator: Optional[Authenticator]
    """This client's side of an extended authentication of your own. MQTT 5.0."""
    will: Optional[Will]
    """What the server publishes when the client is gone without a word."""
    tls: Optional[Tls]
    """Whom to trust and who to be, for `mqtts://` and `wss://`."""
    websocket_headers: UserProperties
    """Names and values of header fields in the handshake of `ws://` and `wss://`, 8 KiB at most."""
    connect_timeout: float
    """For an attempt to connect, up to the server's answer. Default: 20."""
    reconnect: Optional[tuple[float, float]]
    """The pause after the first failed attempt and the longest one; `None` never connects again. Default: (0.5, 30)."""
    queue_messages: int
    """Messages that may wait to be sent; `publish` waits above it. Default: 10,000."""
    queue_bytes: int
    """Bytes of those messages. Default: 16 MiB."""
    in_flight: int
    """QoS 1 and 2 messages that may be sent and not acknowledged yet. Default: 1,000."""
    receive_maximum: int
    """QoS 1 and 2 messages that the server may send before they are acknowledged. Default: 1,000."""
    maximum_packet_bytes: Optional[int]
    """The largest packet taken from the server. Default: what MQTT can express."""
    topic_alias_maximum: int
    """Topic aliases that the server may use. Default: 0."""
    topic_aliases: int
    """So many of the first topics published get an alias, as far as the server takes aliases. Default: 0."""
    user_properties: UserProperties
    """Names and values for the server, in CONNECT."""
    store: Optional[FileStore]
    """Keeps messages of QoS 1 and 2 beyond the life of the process. Default: they end with it."""


class PublishOptions(TypedDict, total=False):
    """What can be said to `Client.publish` besides topic and payload."""

    qos: int
    retain: bool
    expiry: Optional[int]
    """Lifetime in seconds."""
    content_type: Optional[str]
    is_text: bool
    response_topic: Optional[str]
    correlation_data: Optional[bytes]
    user_properties: UserProperties


class SubscribeOptions(TypedDict, total=False):
    """What can be said to `Client.subscribe` besides the filters."""

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
    """Names the option that was probably meant when an unknown one is given."""
    parameters = inspect.signature(function).parameters

    @functools.wraps(function)
    def checked(*positional: Any, **named: Any) -> Any:
        for name in named:
            if name not in parameters:
                meant = KNOWN_AS.get(name)
                close = [meant] if meant in parameters else difflib.get_close_matches(name, parameters, 1)
                hint = f"; did you mean {close[0]}?" if close else ""
                raise MqttError("invalid_options", f"there is no option {name}{hint}")
        return function(*positional, **named)

    return checked  # type: ignore[return-value]


@dataclass(frozen=True)
class Options:
    """All options of `connect`, checked, as the native client takes them."""

    settings: Mapping[str, Any] = field(repr=False)
    closing_expiry: Optional[int]
    """What DISCONNECT says of the session; `None` leaves it as it is."""
    outlives: bool
    """The session is meant to outlive the client, and its subscriptions with it."""


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
        raise MqttError("invalid_options", "tls takes a tautwire.Tls")
    if tls is not None and not where.startswith(SECURE):
        # Without a word, everything would go out readable.
        raise MqttError("invalid_options", "tls is for mqtts:// and wss://")
    if websocket_headers and not where.startswith(WEBSOCKET):
        raise MqttError("invalid_options", f"websocket_headers are for {' and '.join(WEBSOCKET)}")
    if will is not None and not isinstance(will, Will):
        raise MqttError("invalid_options", "will takes a tautwire.Will")
    if scram not in (None, "sha256", "sha512"):
        raise MqttError("invalid_options", "scram is 'sha256' or 'sha512'")
    if scram is not None and (version != 5 or not user_name or not password):
        raise MqttError("invalid_options", "scram needs MQTT 5.0, a user name and a password")
    if credentials is not None and not callable(credentials):
        raise MqttError("invalid_options", "credentials takes a function that gives tautwire.Credentials")
    if credentials is not None and (user_name, password, scram) != (None, None, None):
        raise MqttError("invalid_options", "credentials take the place of user name, password and scram")
    if authenticator is not None and (version != 5 or scram is not None):
        raise MqttError("invalid_options", "an authenticator needs MQTT 5.0, and takes the place of scram")
    if store is not None and not isinstance(store, FileStore):
        raise MqttError("invalid_options", "store takes a tautwire.FileStore")
    if store is not None and clean_start:
        raise MqttError("invalid_options", "a store goes on with its session, which clean_start discards")
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
    # What the application has asked for stays; our own default ends with the client, but for a session that outlives the process.
    closing_expiry = 0 if version == 5 and session_expiry is None and store is None else None
    outlives = expiry > 0 and closing_expiry is None if version == 5 else not settings["clean_start"]
    return Options(settings, closing_expiry, outlives)


def credentials_of(given: object) -> tuple[Optional[str], Optional[bytes]]:
    """What a function that was asked for credentials gave, as the native client takes it."""
    if inspect.iscoroutine(given):
        given.close()
        raise TypeError("a coroutine function for credentials needs the client for asyncio")
    if not isinstance(given, Credentials):
        raise TypeError(f"credentials gives tautwire.Credentials, not {type(given).__name__}")
    return given.user_name, given.password.encode() if isinstance(given.password, str) else given.password


def split_address(address: str) -> tuple[str, Optional[str], Optional[str]]:
    """The address without user name and password, and those two. Errors never show them."""
    if not isinstance(address, str):
        raise MqttError("invalid_options", "the address is a str such as mqtt://127.0.0.1:1883")
    if address.startswith(("unix:", "mqtt+unix://")):
        return address, None, None
    if not address:
        raise MqttError("invalid_options", "the address is empty; write it as mqtt://HOST:PORT")
    if "://" not in address:
        # What stands before @ may be a secret.
        shown = address.rpartition("@")[2]
        raise MqttError("invalid_options", f"{shown} has no scheme; write it as mqtt://{shown}")
    try:
        parts = urlsplit(address)
        # Asking for the port finds out whether it is a number.
        parts.port  # noqa: B018
    except ValueError:
        raise MqttError("invalid_options", "the address cannot be read; write it as mqtt://HOST:PORT") from None
    if parts.scheme not in (*SCHEMES, "tcp", "ssl"):
        raise MqttError("invalid_options", f"the scheme {parts.scheme} is none of {', '.join(SCHEMES)}")
    user_name = None if parts.username is None else unquote(parts.username)
    password = None if parts.password is None else unquote(parts.password)
    return _without_user(address, parts), user_name, password


def _without_user(address: str, parts: SplitResult) -> str:
    if "@" not in parts.netloc:
        # Schemes may be in capitals, too.
        return parts.scheme + address[len(parts.scheme) :]
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def _client_id() -> str:
    """At most 23 characters, which is what every server must take [MQTT-3.1.3-5]."""
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
            raise MqttError("invalid_options", f"authenticator is none: it has no method {name}")
    method = getattr(authenticator, "method", None)
    if not isinstance(method, str):
        raise MqttError("invalid_options", "the method of an authenticator is a str")
    return method, authenticator


def _reconnect(pauses: tuple[float, float]) -> tuple[float, float]:
    try:
        first, longest = pauses
    except (TypeError, ValueError):
        raise MqttError("invalid_options", "reconnect is the first pause and the longest, in seconds") from None
    if seconds("reconnect", longest) < seconds("reconnect", first):
        raise MqttError("invalid_options", "the longest pause of reconnect is shorter than the first")
    return float(first), float(longest)


def whole(name: str, value: object, least: int, most: int, code: str = OPTIONS) -> int:
    """A whole number within its range."""
    if isinstance(value, int) and least <= value <= most:
        return int(value)
    raise wrong(name, value, f"a whole number from {least} to {most}", code)


def seconds(name: str, value: object) -> float:
    """A time of zero or more."""
    if isinstance(value, (int, float)) and value >= 0:
        return float(value)
    raise wrong(name, value, "a number of seconds")


def text(name: str, value: object, code: str = OPTIONS) -> str:
    """A text that UTF-8 can hold."""
    if not isinstance(value, str):
        raise wrong(name, value, "a str", code)
    try:
        value.encode()
    except UnicodeEncodeError:
        # It is not shown: it may be a secret.
        raise MqttError(code, f"{name} has half of a surrogate pair, which UTF-8 cannot hold") from None
    return value


def binary(name: str, value: object, code: str = OPTIONS) -> bytes:
    """Bytes, or the bytes of a text."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, str):
        return text(name, value, code).encode()
    raise wrong(name, value, "bytes or a str", code)


def pairs(name: str, properties: UserProperties, code: str = OPTIONS) -> list[tuple[str, str]]:
    """Names and values, such as those of user properties."""
    given = properties.items() if isinstance(properties, Mapping) else properties
    try:
        listed = [(one, value) for one, value in given]
    except (TypeError, ValueError):
        raise MqttError(code, f"{name} is a mapping of names to values, or a sequence of such pairs") from None
    return [(text(f"a name of {name}", one, code), text(f"a value of {name}", value, code)) for one, value in listed]


def wrong(name: str, value: object, wanted: str, code: str = OPTIONS) -> MqttError:
    """What is wrong with an option. Only numbers are shown: anything else may be a secret in the wrong place."""
    shown = repr(value) if isinstance(value, (int, float)) else type(value).__name__
    return MqttError(code, f"{name} is {wanted}, not {shown}")
