"""JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, NoReturn, TypeVar, cast

import tautwire

from .mapping import Plain
from .payload import DEPTH_MAX, PayloadError

T = TypeVar("T")


def json_codec(to: Callable[[T, bool], Any], read: Callable[[object], T]) -> tautwire.Codec[T]:
    """Payloads in JSON. `to` converts a value to plain JSON values, `read` converts it back."""
    return tautwire.Codec(
        lambda value: _text(to(value, True)),
        lambda payload: read(_parsed(payload)),
        content_type="application/json",
        is_text=True,
    )


class _HasPlain(Exception):
    """Encodes JSON; the standard library cannot format numbers as needed."""


def _refuse(value: object) -> NoReturn:
    if isinstance(value, Plain):
        raise _HasPlain
    raise PayloadError(f"expected a JSON value, not {type(value).__name__}")


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_refuse).encode


def _text(value: Any) -> str:
    try:
        return _encode(value)
    except _HasPlain:
        parts: list[str] = []
        _write(value, parts)
        return "".join(parts)
    except ValueError as error:
        raise PayloadError("expected finite numbers and no recursive values") from error


def _write(value: Any, parts: list[str]) -> None:
    if isinstance(value, Plain):
        parts.append(value.text)
    elif isinstance(value, dict):
        entries = cast("dict[str, Any]", value)
        for at, (key, item) in enumerate(entries.items()):
            parts.append(f"{',' if at else '{'}{_encode(key)}:")
            _write(item, parts)
        parts.append("}" if entries else "{}")
    elif isinstance(value, (list, tuple)):
        items = cast("Any", value)
        for at, item in enumerate(items):
            parts.append("," if at else "[")
            _write(item, parts)
        parts.append("]" if items else "[]")
    else:
        parts.append(_encode(value))


def _parsed(payload: bytes) -> Any:
    try:
        text = payload.decode()
    except UnicodeDecodeError as error:
        raise PayloadError("expected UTF-8", error.start) from None
    try:
        value = json.loads(text, parse_constant=_constant)
    except json.JSONDecodeError as error:
        raise PayloadError("expected JSON", len(text[: error.pos].encode())) from None
    except (ValueError, RecursionError):
        raise PayloadError("expected JSON with numbers and nesting within limits") from None
    if text.count("[") + text.count("{") > DEPTH_MAX and _depth(value) > DEPTH_MAX:
        raise PayloadError(f"expected values nested at most {DEPTH_MAX} deep")
    if "\\u" in text:
        _check_pairs(value)
    return value


def _constant(text: str) -> NoReturn:
    raise ValueError(text)


def _depth(value: Any) -> int:
    depth, level = 0, [value]
    while inner := [_items(one) for one in level if isinstance(one, (dict, list))]:
        depth += 1
        level = [item for items in inner for item in items]
    return depth


def _items(value: Any) -> Iterable[Any]:
    return cast("dict[str, Any]", value).values() if isinstance(value, dict) else cast("list[Any]", value)


def _check_pairs(value: Any) -> None:
    """Rejects escapes of unpaired surrogates, which UTF-8 cannot represent."""
    try:
        _encode(value).encode()
    except UnicodeEncodeError:
        raise PayloadError("expected no unpaired surrogates") from None
    except ValueError:
        # Integers beyond 64 bits.
        pass
