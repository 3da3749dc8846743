"""MessagePack: encodes values to bytes in the shortest form and decodes them, including NaN, timestamps and extensions."""

from __future__ import annotations

import datetime as _datetime
import struct
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence

DEPTH_MAX = 256
"""The maximum depth of nested arrays and maps."""
TIMESTAMP_TYPE = -1
NANOSECONDS = 1_000_000_000

_EPOCH = _datetime.datetime(1970, 1, 1, tzinfo=_datetime.timezone.utc)


class MsgpackError(ValueError):
    """The bytes are not MessagePack, or the value cannot be encoded. `code` is a stable name."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(f"{text} [{code}]")
        self.code = code


@dataclass(frozen=True)
class Timestamp:
    """A time, as seconds since 1970 and nanoseconds of the second."""

    seconds: int
    nanoseconds: int = 0

    def datetime(self) -> _datetime.datetime:
        """Returns the time in UTC, truncated to microseconds."""
        return _EPOCH + _datetime.timedelta(seconds=self.seconds, microseconds=self.nanoseconds // 1000)

    @classmethod
    def of(cls, moment: _datetime.datetime) -> Timestamp:
        """Creates a timestamp from an aware `datetime`."""
        if moment.utcoffset() is None:
            raise MsgpackError("no_time_zone", "the datetime has no time zone: give it one")
        since = moment - _EPOCH
        return cls(since.days * 86_400 + since.seconds, since.microseconds * 1000)


@dataclass(frozen=True)
class Extension:
    """A value of a custom extension type, -128 to 127; -1 is the timestamp."""

    type: int
    data: bytes


def encode(value: Any) -> bytes:
    """Encodes a value: `None`, `bool`, `int`, `float`, `str`, bytes, lists, tuples, mappings, aware `datetime`, `Timestamp`, `Extension`.

    Raises `MsgpackError` with `too_deep`, `out_of_range`, `no_time_zone` or `not_supported`.
    """
    out = bytearray()
    try:
        _write(value, out, 0)
    except UnicodeEncodeError as error:
        raise MsgpackError("not_supported", "a string contains a lone surrogate, which UTF-8 cannot encode") from error
    return bytes(out)


def decode(payload: bytes, *, depth_max: int = DEPTH_MAX, needs_text_keys: bool = False) -> Any:
    """Decodes exactly one value. Keys that are arrays become tuples. With `needs_text_keys` all keys must be strings. Arrays and
    maps are at most `depth_max` deep, which is at most 256.

    Raises `MsgpackError` with `truncated`, `invalid_format`, `invalid_utf8`, `invalid_timestamp`, `too_deep`, `invalid_key` or `trailing_bytes`.
    """
    reader = _Reader(payload, min(depth_max, DEPTH_MAX), needs_text_keys)
    value = reader.value(0)
    if reader.at != len(payload):
        raise MsgpackError("trailing_bytes", f"{len(payload) - reader.at} bytes follow the value")
    return value


def _write(value: Any, out: bytearray, depth: int) -> None:
    kind = type(value)
    if kind is str:
        data = value.encode()
        _head(out, len(data), ((0xA0, 31),), (0xD9, 0xDA, 0xDB))
        out += data
    elif kind is int:
        _write_int(value, out)
    elif kind is float:
        out += struct.pack(">Bd", 0xCB, value)
    elif value is None:
        out.append(0xC0)
    elif kind is bool:
        out.append(0xC3 if value else 0xC2)
    elif kind is list or kind is tuple:
        _write_array(value, out, depth)
    elif kind is dict:
        _write_map(value, out, depth)
    else:
        _write_other(value, out, depth)


def _write_other(value: Any, out: bytearray, depth: int) -> None:
    if isinstance(value, (bytes, bytearray, memoryview)):
        data = bytes(value)
        _head(out, len(data), (), (0xC4, 0xC5, 0xC6))
        out += data
    elif isinstance(value, Mapping):
        _write_map(dict(value), out, depth)
    elif isinstance(value, (list, tuple)):
        _write_array(value, out, depth)
    elif isinstance(value, Timestamp):
        _write_extension(TIMESTAMP_TYPE, _timestamp_data(value), out)
    elif isinstance(value, _datetime.datetime):
        _write(Timestamp.of(value), out, depth)
    elif isinstance(value, Extension):
        _write_extension(value.type, value.data, out)
    elif isinstance(value, str):
        # For subclasses, such as enumerations.
        _write(str.__str__(value), out, depth)
    elif isinstance(value, int):
        _write(int(value), out, depth)
    elif isinstance(value, float):
        _write(float(value), out, depth)
    else:
        raise MsgpackError("not_supported", f"{type(value).__name__} has no form in MessagePack: make a supported value of it")


def _write_array(value: Sequence[Any], out: bytearray, depth: int) -> None:
    _deeper(depth)
    # A copy, so that the length cannot change after the header.
    items = tuple(value)
    _head(out, len(items), ((0x90, 15),), (0, 0xDC, 0xDD))
    for item in items:
        _write(item, out, depth + 1)


def _write_map(value: dict[Any, Any], out: bytearray, depth: int) -> None:
    _deeper(depth)
    entries = list(value.items())
    _head(out, len(entries), ((0x80, 15),), (0, 0xDE, 0xDF))
    for key, item in entries:
        _write(key, out, depth + 1)
        _write(item, out, depth + 1)


def _head(out: bytearray, size: int, short: tuple[tuple[int, int], ...], codes: tuple[int, int, int]) -> None:
    """Returns the header for content of this size. `short`: the code that includes the size, and the largest size that it can include."""
    one, two, four = codes
    if short and size <= short[0][1]:
        out.append(short[0][0] | size)
    elif one and size <= 0xFF:
        out += struct.pack(">BB", one, size)
    elif size <= 0xFFFF:
        out += struct.pack(">BH", two, size)
    elif size <= 0xFFFF_FFFF:
        out += struct.pack(">BI", four, size)
    else:
        raise MsgpackError("out_of_range", "it has more than 4,294,967,295 bytes or items")


def _write_int(value: int, out: bytearray) -> None:
    if -32 <= value <= 127:
        out.append(value & 0xFF)
        return
    for most, code, form in _UNSIGNED if value >= 0 else _SIGNED:
        if value <= most if value >= 0 else value >= most:
            out += struct.pack(form, code, value)
            return
    raise MsgpackError("out_of_range", "the integer does not fit 64 bits")


_UNSIGNED = ((0xFF, 0xCC, ">BB"), (0xFFFF, 0xCD, ">BH"), (0xFFFF_FFFF, 0xCE, ">BI"), (2**64 - 1, 0xCF, ">BQ"))
_SIGNED = ((-(2**7), 0xD0, ">Bb"), (-(2**15), 0xD1, ">Bh"), (-(2**31), 0xD2, ">Bi"), (-(2**63), 0xD3, ">Bq"))
_FIXED_EXTENSIONS = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}


def _write_extension(kind: int, data: bytes, out: bytearray) -> None:
    if not -128 <= kind <= 127:
        raise MsgpackError("out_of_range", "the type of an extension is -128 to 127")
    fixed = _FIXED_EXTENSIONS.get(len(data))
    if fixed is not None:
        out.append(fixed)
    else:
        _head(out, len(data), (), (0xC7, 0xC8, 0xC9))
    out += struct.pack(">b", kind)
    out += data


def _timestamp_data(moment: Timestamp) -> bytes:
    seconds, nanoseconds = moment.seconds, moment.nanoseconds
    if not 0 <= nanoseconds < NANOSECONDS or not -(2**63) <= seconds < 2**63:
        raise MsgpackError("out_of_range", "the seconds of a timestamp have 64 bits, its nanoseconds are 0 to 999,999,999")
    if 0 <= seconds < 2**32 and nanoseconds == 0:
        return struct.pack(">I", seconds)
    if 0 <= seconds < 2**34:
        return struct.pack(">Q", nanoseconds << 34 | seconds)
    return struct.pack(">Iq", nanoseconds, seconds)


def _deeper(depth: int, depth_max: int = DEPTH_MAX) -> None:
    if depth >= depth_max:
        raise MsgpackError("too_deep", f"more than {depth_max} arrays and maps are within each other")


class _Reader:
    """Decodes from `at` on. Announced lengths allocate nothing: each item is read before the next."""

    def __init__(self, payload: bytes, depth_max: int, needs_text_keys: bool) -> None:
        self.payload = payload
        self.at = 0
        self.depth_max = depth_max
        self.needs_text_keys = needs_text_keys

    def value(self, depth: int) -> Any:
        code = self.number(">B")
        if code <= 0x7F:
            return code
        if code >= 0xE0:
            return code - 0x100
        if code <= 0x8F:
            return self.mapping(code & 0x0F, depth)
        if code <= 0x9F:
            return self.array(code & 0x0F, depth)
        if code <= 0xBF:
            return self.text(code & 0x1F)
        return self.coded(code, depth)

    def coded(self, code: int, depth: int) -> Any:
        if code in _CONSTANTS:
            return _CONSTANTS[code]
        if code in _NUMBERS:
            return self.number(_NUMBERS[code])
        if code in _SIZED:
            form, read = _SIZED[code]
            return read(self, self.number(form), depth)
        if code in _FIXED_SIZES:
            return self.extension(_FIXED_SIZES[code], depth)
        raise MsgpackError("invalid_format", f"no value starts with {code:#04x}")

    def number(self, form: str) -> Any:
        return struct.unpack(form, self.take(struct.calcsize(form)))[0]

    def take(self, size: int) -> bytes:
        end = self.at + size
        if end > len(self.payload):
            raise MsgpackError("truncated", "the bytes end within a value")
        data = bytes(self.payload[self.at : end])
        self.at = end
        return data

    def raw(self, size: int, _depth: int = 0) -> bytes:
        return self.take(size)

    def text(self, size: int, _depth: int = 0) -> str:
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise MsgpackError("invalid_utf8", "a string is not UTF-8") from error

    def array(self, size: int, depth: int) -> list[Any]:
        _deeper(depth, self.depth_max)
        items: list[Any] = []
        for _ in range(size):
            items.append(self.value(depth + 1))
        return items

    def mapping(self, size: int, depth: int) -> dict[Any, Any]:
        _deeper(depth, self.depth_max)
        entries: dict[Any, Any] = {}
        for _ in range(size):
            key = self.value(depth + 1)
            if self.needs_text_keys and not isinstance(key, str):
                raise MsgpackError("invalid_key", "the key of a map is no string")
            try:
                hash(key)
            except TypeError:
                key = _hashable(key)
            entries[key] = self.value(depth + 1)
        return entries

    def extension(self, size: int, _depth: int) -> Any:
        kind = self.number(">b")
        data = self.take(size)
        return _timestamp(data) if kind == TIMESTAMP_TYPE else Extension(kind, data)


def _hashable(key: Any) -> Any:
    if isinstance(key, list):
        items: list[Any] = key
        return tuple(_hashable(item) for item in items)
    if isinstance(key, dict):
        raise MsgpackError("invalid_key", "a map is the key of another, which Python cannot hold")
    return key


def _timestamp(data: bytes) -> Timestamp:
    if len(data) == 4:
        return Timestamp(struct.unpack(">I", data)[0])
    if len(data) == 8:
        both = struct.unpack(">Q", data)[0]
        seconds, nanoseconds = both & (2**34 - 1), both >> 34
    elif len(data) == 12:
        nanoseconds, seconds = struct.unpack(">Iq", data)
    else:
        raise MsgpackError("invalid_timestamp", "a timestamp has 4, 8 or 12 bytes")
    if nanoseconds >= NANOSECONDS:
        raise MsgpackError("invalid_timestamp", "a timestamp has 999,999,999 nanoseconds at most")
    return Timestamp(seconds, nanoseconds)


_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_NUMBERS = {
    0xCA: ">f", 0xCB: ">d", 0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q", 0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q",
}  # fmt: skip
_FIXED_SIZES = {code: size for size, code in _FIXED_EXTENSIONS.items()}
_SIZED: dict[int, tuple[str, Callable[[_Reader, int, int], Any]]] = {
    0xC4: (">B", _Reader.raw), 0xC5: (">H", _Reader.raw), 0xC6: (">I", _Reader.raw),
    0xC7: (">B", _Reader.extension), 0xC8: (">H", _Reader.extension), 0xC9: (">I", _Reader.extension),
    0xD9: (">B", _Reader.text), 0xDA: (">H", _Reader.text), 0xDB: (">I", _Reader.text),
    0xDC: (">H", _Reader.array), 0xDD: (">I", _Reader.array),
    0xDE: (">H", _Reader.mapping), 0xDF: (">I", _Reader.mapping),
}  # fmt: skip
