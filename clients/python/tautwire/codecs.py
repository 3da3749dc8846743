"""Codecs, which convert values to payloads and back."""

from __future__ import annotations

import json as _json
from typing import Any, Callable, Generic, Optional, TypeVar, Union

from . import messagepack as _messagepack
from .errors import MqttError

T = TypeVar("T")


class Codec(Generic[T]):
    """Encodes values of one type to payloads and decodes them.

    MQTT 5.0 messages carry `content_type`, and `is_text` as payload format indicator. `encode` and `decode` may raise any exception:
    it becomes the cause of `payload_invalid`, unless it is an `MqttError`.
    """

    def __init__(
        self,
        encode: Callable[[T], Union[bytes, str]],
        decode: Callable[[bytes], T],
        *,
        content_type: Optional[str] = None,
        is_text: bool = False,
    ) -> None:
        self._encode = encode
        self._decode = decode
        self.content_type = content_type
        self.is_text = is_text

    def encode(self, value: T) -> Union[bytes, str]:
        """Encodes a value. Raises `payload_invalid`."""
        try:
            return self._encode(value)
        except MqttError:
            raise
        except Exception as error:
            raise MqttError("payload_invalid", f"{type(error).__name__} while it was encoded") from error

    def decode(self, payload: bytes) -> T:
        """Decodes a payload. Raises `payload_invalid`."""
        try:
            return self._decode(payload)
        except MqttError:
            raise
        except Exception as error:
            raise MqttError("payload_invalid", f"{type(error).__name__} while it was decoded") from error


def json(parse: Optional[Callable[[Any], T]] = None, *, content_type: str = "application/json") -> Codec[T]:
    """JSON. `parse` converts and validates the decoded value, for example a class method of a model."""
    write = _json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode

    def decode(payload: bytes) -> T:
        value: Any = _json.loads(payload.decode(), parse_constant=_no_number)
        return value if parse is None else parse(value)

    return Codec(write, decode, content_type=content_type, is_text=True)


def _no_number(text: str) -> Any:
    raise ValueError(f"{text} is not a JSON number")


def msgpack(parse: Optional[Callable[[Any], T]] = None, *, content_type: str = "application/msgpack") -> Codec[T]:
    """MessagePack, with `tautwire.messagepack`. `parse` converts and validates the decoded value."""

    def decode(payload: bytes) -> T:
        value: Any = _messagepack.decode(payload)
        return value if parse is None else parse(value)

    return Codec(_messagepack.encode, decode, content_type=content_type)


JSON: Codec[Any] = json()
"""JSON without validation."""
MSGPACK: Codec[Any] = msgpack()
"""MessagePack without validation."""
TEXT: Codec[str] = Codec(str.encode, bytes.decode, content_type="text/plain", is_text=True)
"""UTF-8 text."""
BYTES: Codec[bytes] = Codec(bytes, bytes, content_type="application/octet-stream")
"""The payload itself."""
