"""Named values: functions shared by JSON and MessagePack.

Readers take the values of a decoder. All of them raise `PayloadError`.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import math
import re
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional, TypeVar, Union, cast

from tautwire import messagepack

from .payload import ABSENT, Duration, PayloadError, Timestamp

K = TypeVar("K")
T = TypeVar("T")
S = TypeVar("S", bound=str)

EXACT_BELOW = 2**53
"""Integers below this are exact as `float`."""
DAY_S = 86_400
DAYS_BEFORE_1970 = datetime.date(1970, 1, 1).toordinal()

_WHOLE = re.compile(r"-?(?:0|[1-9][0-9]{0,19})")
_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]*={0,2}")
_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_SPAN = re.compile(r"(-?)([0-9]{1,12})(?:\.([0-9]{1,9}))?s")


def _wrong(expected: str) -> PayloadError:
    return PayloadError(f"expected {expected}")


# Reading.


def fields(value: object) -> dict[str, Any]:
    """Fields and their values."""
    if not isinstance(value, dict):
        raise _wrong("an object")
    return cast("dict[str, Any]", value)


def optional(found: Mapping[str, Any], name: str, read: Callable[[object], T]) -> Optional[T]:
    """The field, if present."""
    if name not in found:
        return None
    try:
        return read(found[name])
    except PayloadError as error:
        raise error.inside(name) from None


def required(found: Mapping[str, Any], name: str, read: Callable[[object], T]) -> T:
    """The required field."""
    if name not in found:
        raise missing(name)
    try:
        return read(found[name])
    except PayloadError as error:
        raise error.inside(name) from None


def mapped(found: Mapping[str, Any], name: str, other: str, read: Callable[[object], T]) -> Optional[T]:
    """The field by either of its names, if present and not null."""
    there = name if name in found else other
    return None if found.get(there) is None else optional(found, there, read)


def missing(name: str) -> PayloadError:
    """The error for a missing field."""
    return _wrong("a required value").inside(name)


def or_none(read: Callable[[object], T]) -> Callable[[object], Optional[T]]:
    return lambda value: None if value is None else read(value)


def items(read: Callable[[object], T]) -> Callable[[object], list[T]]:
    """The items of a list."""

    def read_items(value: object) -> list[T]:
        if not isinstance(value, list):
            raise _wrong("a list")
        found: list[T] = []
        for at, item in enumerate(cast("Any", value)):
            try:
                found.append(read(item))
            except PayloadError as error:
                raise error.inside(at) from None
        return found

    return read_items


def entries(key: Callable[[str], K], read: Callable[[object], T]) -> Callable[[object], dict[K, T]]:
    """The entries of a map. `key` parses keys."""

    def read_entries(value: object) -> dict[K, T]:
        found = fields(value)
        return {key(name): required(found, name, read) for name in found}

    return read_entries


def raw(value: object) -> Any:
    return value


def raw_field(found: Mapping[str, Any], name: str) -> Any:
    """The field, or `ABSENT`."""
    return found.get(name, ABSENT)


def raw_required(found: Mapping[str, Any], name: str) -> Any:
    """The required field."""
    return required(found, name, raw)


def string(value: object) -> str:
    if not isinstance(value, str):
        raise _wrong("a string")
    return value


def boolean(value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong("a boolean")
    return value


def one_of(texts: Sequence[S]) -> Callable[[object], S]:
    """One of several strings."""
    known = {str(text): text for text in texts}

    def read(value: object) -> S:
        found = known.get(value) if isinstance(value, str) else None
        if found is None:
            raise _wrong("one of the values in the schema")
        return found

    return read


def enumeration(named: Mapping[str, K], numbered: Callable[[int], Optional[T]]) -> Callable[[object], Union[K, T]]:
    """A value of an enumeration, by name or by number."""

    def read(value: object) -> Union[K, T]:
        found = named.get(value) if isinstance(value, str) else numbered(int32(value))
        if found is None:
            raise _wrong("a value of the enumeration")
        return found

    return read


def integer(value: object) -> int:
    """An integer of a JSON Schema."""
    if isinstance(value, str):
        raise _wrong("an integer")
    return int64(value)


def int32(value: object) -> int:
    return _whole(value, -(2**31), 2**31 - 1)


def uint32(value: object) -> int:
    return _whole(value, 0, 2**32 - 1)


def int64(value: object) -> int:
    return _whole(value, -(2**63), 2**63 - 1)


def uint64(value: object) -> int:
    return _whole(value, 0, 2**64 - 1)


def _whole(value: object, least: int, most: int) -> int:
    number: Optional[int] = None
    if isinstance(value, bool):
        pass
    elif isinstance(value, int):
        number = value
    elif isinstance(value, float):
        number = int(value) if value.is_integer() else None
    elif isinstance(value, str) and _WHOLE.fullmatch(value):
        number = int(value)
    if number is None or not least <= number <= most:
        raise _wrong(f"an integer from {least} to {most}")
    return number


def double(value: object) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if isinstance(value, str) and (value in ("NaN", "Infinity", "-Infinity") or _NUMBER.fullmatch(value)):
        return float(value)
    raise _wrong("a number")


def single(value: object) -> float:
    """A number of 32 bits."""
    return _single(double(value))


def data(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str) or not _BASE64.fullmatch(value):
        raise _wrong("bytes")
    digits = value.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(digits + "=" * (-len(digits) % 4))
    except binascii.Error:
        raise _wrong("bytes in base64") from None


def timestamp(value: object) -> Timestamp:
    if isinstance(value, messagepack.Timestamp):
        return Timestamp(value.seconds, value.nanoseconds)
    parts = _MOMENT.fullmatch(value) if isinstance(value, str) else None
    if parts is None:
        raise _wrong("an RFC 3339 timestamp")
    year, month, day, hour, minute, second = (int(part) for part in parts.groups()[:6])
    try:
        days = datetime.date(year, month, day).toordinal() - DAYS_BEFORE_1970
        datetime.time(hour, minute, second)
    except ValueError:
        raise _wrong("an RFC 3339 timestamp") from None
    offset_s = (int(parts[9] or 0) * 60 + int(parts[10] or 0)) * (-60 if parts[8] == "-" else 60)
    nanos = int((parts[7] or "").ljust(9, "0"))
    return Timestamp(days * DAY_S + hour * 3600 + minute * 60 + second - offset_s, nanos)


def duration(value: object) -> Duration:
    parts = _SPAN.fullmatch(value) if isinstance(value, str) else None
    if parts is None:
        raise _wrong("seconds with the suffix s, such as 1.5s")
    sign = -1 if parts[1] else 1
    return Duration(sign * int(parts[2]), sign * int((parts[3] or "").ljust(9, "0")))


def bool_key(text: str) -> bool:
    if text not in ("true", "false"):
        raise _wrong('"true" or "false" as the key')
    return text == "true"


# Writing. `is_text`: for JSON, which has no bytes, timestamps and 64-bit numbers.


class Plain:
    """A number that JSON has in another notation than Python: without an exponent, or with its sign."""

    def __init__(self, text: str) -> None:
        self.text = text


def from_int32(value: int) -> int:
    return _within(value, -(2**31), 2**31 - 1)


def from_uint32(value: int) -> int:
    return _within(value, 0, 2**32 - 1)


def from_int64(value: int, is_text: bool) -> Union[int, str]:
    _within(value, -(2**63), 2**63 - 1)
    return str(value) if is_text else value


def from_uint64(value: int, is_text: bool) -> Union[int, str]:
    _within(value, 0, 2**64 - 1)
    return str(value) if is_text else value


def from_integer(value: int) -> int:
    return _within(value, -(2**63), 2**63 - 1)


def _within(value: int, least: int, most: int) -> int:
    if least <= value <= most:
        return value
    raise _wrong(f"an integer from {least} to {most}")


def from_double(value: float, is_text: bool) -> Union[int, float, str, Plain]:
    """An integer is written without a decimal point, and 1e-6 up to 1e21 without an exponent."""
    is_minus_zero = value == 0 and math.copysign(1.0, value) < 0
    if not is_text:
        is_whole = abs(value) < EXACT_BELOW and float(value).is_integer() and not is_minus_zero
        return int(value) if is_whole else float(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if is_minus_zero:
        return Plain("-0")
    magnitude = abs(value)
    if float(value).is_integer() and magnitude < 1e21:
        return int(value) if magnitude < EXACT_BELOW else Plain(_without_exponent(value))
    if 1e-6 <= magnitude < 1e-4:
        return Plain(_without_exponent(value))
    return float(value)


def _without_exponent(value: float) -> str:
    digits, _, exponent = repr(value).partition("e")
    if not exponent:
        return digits.removesuffix(".0")
    sign = "-" if digits.startswith("-") else ""
    whole, _, fraction = digits.lstrip("-").partition(".")
    point = len(whole) + int(exponent)
    digits = whole + fraction
    return f"{sign}0.{'0' * -point}{digits}" if point <= 0 else sign + digits.ljust(point, "0")


def from_single(value: float, is_text: bool) -> Union[int, float, str, Plain]:
    """The shortest form of a 32-bit number."""
    exact = _single(value)
    if not is_text or not math.isfinite(exact):
        return from_double(exact, is_text)
    for digits in range(6, 9):
        short = float(f"{exact:.{digits}g}")
        if _single(short) == exact:
            return from_double(short, is_text)
    return from_double(exact, is_text)


def _single(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def from_data(value: bytes, is_text: bool) -> Union[bytes, str]:
    return base64.b64encode(value).decode() if is_text else bytes(value)


def from_enumeration(value: int, names: Mapping[int, str]) -> Union[int, str]:
    return names[value] if value in names else from_int32(value)


def from_timestamp(value: Timestamp, is_text: bool) -> Union[messagepack.Timestamp, str]:
    if not is_text:
        return messagepack.Timestamp(value.seconds, value.nanos)
    days, second = divmod(value.seconds, DAY_S)
    try:
        date = datetime.date.fromordinal(days + DAYS_BEFORE_1970)
    except (ValueError, OverflowError):
        raise _wrong("a timestamp in the years 1 to 9999") from None
    time = f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}"
    return f"{date.isoformat()}T{time}{_fraction(value.nanos)}Z"


def from_duration(value: Duration) -> str:
    sign = "-" if value.seconds < 0 or value.nanos < 0 else ""
    return f"{sign}{abs(value.seconds)}{_fraction(abs(value.nanos))}s"


def from_entries(value: Mapping[Any, T], convert: Callable[[T], Any]) -> dict[str, Any]:
    return {_key(key): convert(item) for key, item in value.items()}


def _key(key: Union[str, int]) -> str:
    return ("false", "true")[key] if isinstance(key, bool) else str(key)


def _fraction(nanos: int) -> str:
    """Three, six or nine digits, the fewest that are enough."""
    if not 0 <= nanos <= 999_999_999:
        raise _wrong("nanoseconds from 0 to 999,999,999")
    if nanos == 0:
        return ""
    digits = f"{nanos:09}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}"
