"""Payloads and their errors."""

from __future__ import annotations

import datetime as _datetime
import math
from dataclasses import dataclass
from typing import Any, Optional, Union

import tautwire

DEPTH_MAX = 100
"""Maximum nesting of values."""

_EPOCH = _datetime.datetime(1970, 1, 1, tzinfo=_datetime.timezone.utc)


class PayloadError(tautwire.MqttError):
    """A payload or value that does not match its contract. Its code is `payload_invalid`."""

    path: str
    """The path of the field, such as `readings[2].unit`; empty for the payload itself."""
    offset: Optional[int]
    """The offset in the payload in bytes; `None` if unknown."""

    def __init__(self, what: str, offset: Optional[int] = None) -> None:
        super().__init__("payload_invalid")
        self.args = (what, offset)
        self.path = ""
        self.offset = offset
        self._what = what
        self._explain()

    def inside(self, step: Union[str, int]) -> PayloadError:
        """Adds a field or an item in front of the path."""
        name = f"[{step}]" if isinstance(step, int) else step
        self.path = name + self.path if not self.path or self.path.startswith("[") else f"{name}.{self.path}"
        self._explain()
        return self

    def _explain(self) -> None:
        place = f"{self.path}: " if self.path else ""
        self.detail = place + self._what + ("" if self.offset is None else f" at byte {self.offset}")


def no_items() -> list[Any]:
    return []


def no_entries() -> dict[Any, Any]:
    return {}


def is_something(value: float) -> bool:
    """Whether it differs from zero. Minus zero does."""
    return value != 0 or math.copysign(1.0, value) < 0


class Absent:
    """The type of `ABSENT`."""

    def __repr__(self) -> str:
        return "ABSENT"

    def __bool__(self) -> bool:
        return False

    def __copy__(self) -> Absent:
        return self

    def __deepcopy__(self, _memo: object) -> Absent:
        return self

    def __reduce__(self) -> str:
        return "ABSENT"


ABSENT = Absent()
"""Marks an absent field where `None` is a valid value."""


@dataclass(frozen=True, order=True)
class Timestamp:
    """A timestamp: seconds since 1970-01-01T00:00:00Z, and 0 to 999,999,999 nanoseconds."""

    seconds: int = 0
    nanos: int = 0

    @classmethod
    def of(cls, moment: _datetime.datetime) -> Timestamp:
        """Converts a datetime. Raises `PayloadError` if it has no time zone."""
        if moment.utcoffset() is None:
            raise PayloadError("expected a datetime with a time zone")
        since = moment - _EPOCH
        return cls(since.days * 86_400 + since.seconds, since.microseconds * 1000)

    def datetime(self) -> _datetime.datetime:
        """The datetime in UTC, truncated to microseconds."""
        return _EPOCH + _datetime.timedelta(seconds=self.seconds, microseconds=self.nanos // 1000)


@dataclass(frozen=True)
class Duration:
    """A duration; both numbers have the same sign."""

    seconds: int = 0
    nanos: int = 0

    @classmethod
    def of(cls, span: _datetime.timedelta) -> Duration:
        """Converts a timedelta."""
        microseconds = span // _datetime.timedelta(microseconds=1)
        sign = -1 if microseconds < 0 else 1
        seconds, rest = divmod(abs(microseconds), 1_000_000)
        return cls(sign * seconds, sign * rest * 1000)

    def timedelta(self) -> _datetime.timedelta:
        """The timedelta, truncated to microseconds."""
        sign = -1 if self.nanos < 0 else 1
        return _datetime.timedelta(seconds=self.seconds, microseconds=sign * (abs(self.nanos) // 1000))
