"""MessagePack."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import tautwire
from tautwire import messagepack

from .payload import DEPTH_MAX, PayloadError

T = TypeVar("T")


def messagepack_codec(to: Callable[[T, bool], Any], read: Callable[[object], T]) -> tautwire.Codec[T]:
    """Payloads in MessagePack. `to` converts a value to plain values, `read` converts it back."""

    def encode(value: T) -> bytes:
        try:
            return messagepack.encode(to(value, False))
        except messagepack.MsgpackError as error:
            raise PayloadError(str(error)) from error

    def decode(payload: bytes) -> T:
        try:
            found = messagepack.decode(payload, depth_max=DEPTH_MAX, needs_text_keys=True)
        except messagepack.MsgpackError as error:
            raise PayloadError(str(error)) from error
        return read(found)

    return tautwire.Codec(encode, decode, content_type="application/msgpack")
