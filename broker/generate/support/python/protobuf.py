"""The binary form of Protocol Buffers."""

from __future__ import annotations

import struct
from typing import Callable, Optional, TypeVar, Union

import tautwire

from .payload import DEPTH_MAX, Duration, PayloadError, Timestamp

T = TypeVar("T")

_FLOAT, _DOUBLE = struct.Struct("<f"), struct.Struct("<d")
_FIXED32, _SFIXED32 = struct.Struct("<I"), struct.Struct("<i")
_FIXED64, _SFIXED64 = struct.Struct("<Q"), struct.Struct("<q")


def protobuf_codec(
    write: Callable[[T, Writer], None], read: Callable[[Reader, Optional[T]], T]
) -> tautwire.Codec[T]:
    """Payloads in the binary form of Protocol Buffers."""

    def encode(value: T) -> bytes:
        out = Writer()
        write(value, out)
        return bytes(out.out)

    def decode(payload: bytes) -> T:
        return read(Reader(payload), None)

    return tautwire.Codec(encode, decode, content_type="application/x-protobuf")


class Writer:
    """Writes values one after another. Its methods raise `PayloadError` if a number does not fit."""

    def __init__(self) -> None:
        self.out = bytearray()

    def tag(self, tag: bytes) -> None:
        """Number and wire type of the next value."""
        self.out += tag

    def uint32(self, value: int) -> None:
        self._varint(_within(value, 0, 2**32 - 1))

    def int32(self, value: int) -> None:
        self._varint(_within(value, -(2**31), 2**31 - 1) & 0xFFFF_FFFF_FFFF_FFFF)

    def sint32(self, value: int) -> None:
        _within(value, -(2**31), 2**31 - 1)
        self._varint(value << 1 if value >= 0 else ~(value << 1))

    def uint64(self, value: int) -> None:
        self._varint(_within(value, 0, 2**64 - 1))

    def int64(self, value: int) -> None:
        self._varint(_within(value, -(2**63), 2**63 - 1) & 0xFFFF_FFFF_FFFF_FFFF)

    def sint64(self, value: int) -> None:
        _within(value, -(2**63), 2**63 - 1)
        self._varint(value << 1 if value >= 0 else ~(value << 1))

    def boolean(self, value: bool) -> None:
        self.out.append(1 if value else 0)

    def fixed32(self, value: int) -> None:
        self.out += _FIXED32.pack(_within(value, 0, 2**32 - 1))

    def sfixed32(self, value: int) -> None:
        self.out += _SFIXED32.pack(_within(value, -(2**31), 2**31 - 1))

    def fixed64(self, value: int) -> None:
        self.out += _FIXED64.pack(_within(value, 0, 2**64 - 1))

    def sfixed64(self, value: int) -> None:
        self.out += _SFIXED64.pack(_within(value, -(2**63), 2**63 - 1))

    def single(self, value: float) -> None:
        try:
            self.out += _FLOAT.pack(value)
        except OverflowError:
            self.out += _FLOAT.pack(float("inf") if value > 0 else float("-inf"))

    def double(self, value: float) -> None:
        self.out += _DOUBLE.pack(value)

    def string(self, value: str) -> None:
        try:
            self.data(value.encode())
        except UnicodeEncodeError as error:
            raise PayloadError("expected a string without unpaired surrogates") from error

    def data(self, value: Union[bytes, bytearray]) -> None:
        """Length-delimited bytes."""
        self._varint(len(value))
        self.out += value

    def time(self, value: Union[Timestamp, Duration]) -> None:
        """`Timestamp` and `Duration` have the same fields."""
        inner = Writer()
        if value.seconds != 0:
            inner.tag(b"\x08")
            inner.int64(value.seconds)
        if value.nanos != 0:
            inner.tag(b"\x10")
            inner.int32(value.nanos)
        self.data(inner.out)

    def message(self, write: Callable[[T, Writer], None], value: T) -> None:
        """A length-delimited message."""
        inner = Writer()
        write(value, inner)
        self.data(inner.out)

    def _varint(self, value: int) -> None:
        out = self.out
        while value > 0x7F:
            out.append(value & 0x7F | 0x80)
            value >>= 7
        out.append(value)


def _within(value: int, least: int, most: int) -> int:
    if least <= value <= most:
        return value
    raise PayloadError(f"expected an integer from {least} to {most}")


class Reader:
    """Reads values one after another. All methods raise `PayloadError`."""

    def __init__(self, payload: bytes) -> None:
        self._bytes = payload
        self._at = 0
        self._end = len(payload)
        self._depth_left = DEPTH_MAX

    def tag(self) -> int:
        """Number and wire type of the next value; 0 at the end."""
        if self._at >= self._end:
            return 0
        start = self._at
        tag = self.uint64()
        if not 8 <= tag <= 0xFFFF_FFFF:
            raise PayloadError("expected a tag with a field number", start)
        return tag

    def unknown(self, tag: int, numbers: tuple[int, ...]) -> None:
        """Skips the value of an unknown field. A field of `numbers` has a wrong wire type."""
        if tag >> 3 in numbers:
            raise PayloadError(f"expected another wire type of field {tag >> 3}", self._at)
        wire_type = tag & 7
        if wire_type == 0:
            self.uint64()
        elif wire_type == 1:
            self._take(8)
        elif wire_type == 2:
            self._take(self._size())
        elif wire_type == 5:
            self._take(4)
        else:
            raise PayloadError("expected a wire type other than a group", self._at)

    def uint64(self) -> int:
        start = at = self._at
        payload, end = self._bytes, self._end
        value = shift = 0
        while at < end:
            byte = payload[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value > 0xFFFF_FFFF_FFFF_FFFF:
                    break
                self._at = at
                return value
            shift += 7
            if shift == 70:
                break
        else:
            raise PayloadError("expected a number within the payload", start)
        raise PayloadError("expected a number of at most 64 bits", start)

    def int64(self) -> int:
        value = self.uint64()
        return value - 2**64 if value >= 2**63 else value

    def sint64(self) -> int:
        value = self.uint64()
        return value >> 1 ^ -(value & 1)

    def uint32(self) -> int:
        return self.uint64() & 0xFFFF_FFFF

    def int32(self) -> int:
        value = self.uint64() & 0xFFFF_FFFF
        return value - 2**32 if value >= 2**31 else value

    def sint32(self) -> int:
        value = self.uint64() & 0xFFFF_FFFF
        return value >> 1 ^ -(value & 1)

    def boolean(self) -> bool:
        return self.uint64() != 0

    def fixed32(self) -> int:
        return int(_FIXED32.unpack_from(self._bytes, self._take(4))[0])

    def sfixed32(self) -> int:
        return int(_SFIXED32.unpack_from(self._bytes, self._take(4))[0])

    def fixed64(self) -> int:
        return int(_FIXED64.unpack_from(self._bytes, self._take(8))[0])

    def sfixed64(self) -> int:
        return int(_SFIXED64.unpack_from(self._bytes, self._take(8))[0])

    def single(self) -> float:
        return float(_FLOAT.unpack_from(self._bytes, self._take(4))[0])

    def double(self) -> float:
        return float(_DOUBLE.unpack_from(self._bytes, self._take(8))[0])

    def string(self) -> str:
        start = self._take(self._size())
        try:
            return self._bytes[start : self._at].decode()
        except UnicodeDecodeError:
            raise PayloadError("expected UTF-8", start) from None

    def data(self) -> bytes:
        """Length-delimited bytes."""
        start = self._take(self._size())
        return bytes(self._bytes[start : self._at])

    def timestamp(self) -> Timestamp:
        return Timestamp(*self._time())

    def duration(self) -> Duration:
        return Duration(*self._time())

    def _time(self) -> tuple[int, int]:
        seconds = nanos = 0
        end = self.enter()
        while tag := self.tag():
            if tag == 8:
                seconds = self.int64()
            elif tag == 16:
                nanos = self.int32()
            else:
                self.unknown(tag, (1, 2))
        self.leave(end)
        return seconds, nanos

    def packed(self, read: Callable[[], T]) -> list[T]:
        """The items of a packed list."""
        items: list[T] = []
        end = self.enter()
        while self._at < self._end:
            items.append(read())
        self.leave(end)
        return items

    def message(self, read: Callable[[Reader, Optional[T]], T], existing: Optional[T] = None) -> T:
        """A length-delimited message, merged into an existing one."""
        end = self.enter()
        value = read(self, existing)
        self.leave(end)
        return value

    def enter(self) -> int:
        """Enters a length-delimited value. Pass the result to `leave`."""
        outer = self._end
        start = self._take(self._size())
        self._depth_left -= 1
        if self._depth_left == 0:
            raise PayloadError(f"expected messages nested at most {DEPTH_MAX} deep", start)
        self._end = self._at
        self._at = start
        return outer

    def leave(self, end: int) -> None:
        """Leaves the value, after its end."""
        self._at = self._end
        self._end = end
        self._depth_left += 1

    def _size(self) -> int:
        start = self._at
        size = self.uint64()
        if size > self._end - self._at:
            raise PayloadError("expected a value within the payload", start)
        return size

    def _take(self, count: int) -> int:
        start = self._at
        if count > self._end - start:
            raise PayloadError("expected a value within the payload", start)
        self._at = start + count
        return start
