"""Converts the arguments of publish and subscribe for the native client."""

from __future__ import annotations

from typing import Any, Callable, Iterable, Optional, Sequence, Union

from ._native import Message
from .errors import MqttError
from .options import ARGUMENT, U32_MAX, UserProperties, binary, pairs, text, whole
from .topics import Address, Topic, TypedMessage

CAPACITY = 10_000
"""The number of messages that a subscription buffers."""
BATCH = 256
"""The number of messages that are fetched from the native client at a time."""
IDENTIFIER_MAX = 268_435_455
OVERFLOWS = ("wait", "drop_newest", "drop_oldest")
FULL = ("queue_full", "output_full")
"""The codes after which to wait for space."""

Filters = Union[str, Sequence[str], Topic[Any]]


def encoded(
    topic: Union[str, Address[Any]], value: Any, content_type: Optional[str], is_text: bool
) -> tuple[str, Any, Optional[str], bool]:
    """Returns topic name, payload, content type, and whether it is text."""
    if isinstance(topic, str):
        return topic, value, content_type, is_text
    if not isinstance(topic, Address):
        hint = "use its at() method" if isinstance(topic, Topic) else "use a str"
        raise MqttError("invalid_argument", f"cannot publish to a {type(topic).__name__}; {hint}")
    codec = topic.codec
    payload = codec.encode(value)
    return topic.name, payload, codec.content_type if content_type is None else content_type, is_text or codec.is_text


def extra(
    expiry: Optional[int],
    content_type: Optional[str],
    is_text: bool,
    response_topic: Optional[str],
    correlation_data: Optional[bytes],
    user_properties: UserProperties,
) -> Optional[dict[str, Any]]:
    """Returns the optional properties of a message; `None` if there are none."""
    if (
        expiry is None
        and content_type is None
        and not is_text
        and response_topic is None
        and correlation_data is None
        and not user_properties
    ):
        return None
    return {
        "expiry_s": None if expiry is None else whole("expiry", expiry, 0, U32_MAX, ARGUMENT),
        "content_type": None if content_type is None else text("content_type", content_type, ARGUMENT),
        "is_text": bool(is_text),
        "response_topic": None if response_topic is None else text("response_topic", response_topic, ARGUMENT),
        "correlation_data": None if correlation_data is None else binary("correlation_data", correlation_data, ARGUMENT),
        "user_properties": pairs("user_properties", user_properties, ARGUMENT),
    }


def subscribing(
    filters: Filters,
    *,
    qos: int,
    no_local: bool,
    retain_as_published: bool,
    retain_handling: int,
    identifier: Optional[int],
    capacity: int,
    overflow: str,
    user_properties: UserProperties,
) -> dict[str, Any]:
    """Checks and converts the arguments of a subscription."""
    if overflow not in OVERFLOWS:
        raise MqttError("invalid_argument", f"overflow must be one of {', '.join(OVERFLOWS)}")
    return {
        "filters": names(filters),
        "qos": whole("qos", qos, 0, 2, ARGUMENT),
        "no_local": bool(no_local),
        "retain_as_published": bool(retain_as_published),
        "retain_handling": whole("retain_handling", retain_handling, 0, 2, ARGUMENT),
        "identifier": None if identifier is None else whole("identifier", identifier, 1, IDENTIFIER_MAX, ARGUMENT),
        "capacity": whole("capacity", capacity, 1, U32_MAX, ARGUMENT),
        "overflow": overflow,
        "user_properties": pairs("user_properties", user_properties, ARGUMENT),
    }


def names(filters: Filters) -> list[str]:
    """Returns the filters as a list with at least one."""
    if isinstance(filters, Topic):
        return [filters.filter]
    listed = [filters] if isinstance(filters, str) or not isinstance(filters, Iterable) else list(filters)
    if not listed:
        raise MqttError("invalid_argument", "a subscription needs a filter")
    for one in listed:
        text("a filter", one, ARGUMENT)
    return listed


def converter(filters: Filters) -> Optional[Callable[[Message], Any]]:
    """Returns the function that converts messages for the application; `None` if there is no conversion."""
    if not isinstance(filters, Topic):
        return None
    topic = filters
    return lambda message: TypedMessage(topic, message)
