"""Typed topics: a pattern of topic names with parameters, and the codec of their payloads."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Generic, Optional, TypeVar, Union

from ._native import Message
from .codecs import Codec
from .errors import MqttError

T = TypeVar("T")

_PARAMETER = re.compile(r"\{([^{}]+?)(\.\.\.)?\}")
_FORBIDDEN = re.compile(r"[{}+#\0]")
_WILDCARDS = re.compile(r"[+#\0]")

FIXED, ONE, REST = range(3)


@dataclass(frozen=True)
class _Level:
    # The text of a fixed level, or the name of a parameter.
    text: str
    kind: int


class Topic(Generic[T]):
    """A typed topic: `{name}` matches one level, and `{name...}` at the end all remaining levels.

    ```python
    reading = Topic("sensors/{id}/reading", json(Reading.parse))
    await client.publish(reading.at(id=7), Reading(celsius=21.5))
    async for message in client.subscribe(reading):
        print(message.params["id"], message.value.celsius)
    ```

    Raises `MqttError` with the code `invalid_argument` if the pattern is invalid.
    """

    def __init__(self, pattern: str, codec: Codec[T]) -> None:
        self.pattern = pattern
        self.codec = codec
        self._levels = tuple(_level(text) for text in pattern.split("/"))
        names = [level.text for level in self._levels if level.kind != FIXED]
        if not pattern:
            raise _wrong("a topic needs at least one character")
        if len(set(names)) < len(names):
            raise _wrong(f"{pattern}: duplicate parameter")
        if any(level.kind == REST for level in self._levels[:-1]):
            raise _wrong(f"{pattern}: a parameter with ... must be the last level")
        self._parameters = frozenset(names)
        self.filter = self.filter_for()
        """The topic filter of the pattern, with wildcards for the parameters."""

    def at(self, **parameters: Union[str, int]) -> Address[T]:
        """Returns one topic of the pattern, to publish to. Raises `invalid_argument`: a parameter is missing or contains a wildcard."""
        return Address(self._join(parameters, needs_all=True), self.codec)

    def filter_for(self, **parameters: Union[str, int]) -> str:
        """Returns the topic filter for these parameters, with wildcards for the others."""
        return self._join(parameters, needs_all=False)

    def match(self, name: str) -> Optional[dict[str, str]]:
        """Returns the parameters in a topic name; `None` if it does not match the pattern."""
        parts = name.split("/")
        levels = self._levels
        has_rest = levels[-1].kind == REST
        if len(parts) < len(levels) - 1 if has_rest else len(parts) != len(levels):
            return None
        parameters: dict[str, str] = {}
        for at, level in enumerate(levels):
            if level.kind == REST:
                parameters[level.text] = "/".join(parts[at:])
            elif level.kind == ONE:
                parameters[level.text] = parts[at]
            elif level.text != parts[at]:
                return None
        return parameters

    def _join(self, parameters: dict[str, Union[str, int]], needs_all: bool) -> str:
        unknown = parameters.keys() - self._parameters
        if unknown:
            raise _wrong(f"{self.pattern} has no parameter {', '.join(sorted(unknown))}")
        parts: list[str] = []
        for level in self._levels:
            if level.kind == FIXED:
                parts.append(level.text)
            elif level.text in parameters:
                parts.append(self._checked(level, str(parameters[level.text])))
            elif needs_all:
                raise _wrong(f"{self.pattern}: the parameter {level.text} is missing")
            else:
                parts.append("+" if level.kind == ONE else "#")
        return "/".join(parts)

    def _checked(self, level: _Level, value: str) -> str:
        if _WILDCARDS.search(value):
            raise _wrong(f"{self.pattern}: {level.text} contains +, # or U+0000")
        if level.kind == ONE and "/" in value:
            raise _wrong(f"{self.pattern}: {level.text} contains /")
        return value

    def __repr__(self) -> str:
        return f"Topic({self.pattern!r})"


@dataclass(frozen=True)
class Address(Generic[T]):
    """A topic name with its codec, created by `Topic.at`."""

    name: str
    codec: Codec[T]


class TypedMessage(Generic[T]):
    """A message of a typed topic."""

    __slots__ = ("_topic", "_value", "message")

    def __init__(self, topic: Topic[T], message: Message) -> None:
        self.message = message
        """The received message."""
        self._topic = topic
        self._value: tuple[T, ...] = ()

    @property
    def value(self) -> T:
        """The decoded payload. Raises `payload_invalid`."""
        if not self._value:
            self._value = (self._topic.codec.decode(self.message.payload),)
        return self._value[0]

    @property
    def params(self) -> dict[str, str]:
        """The parameters in the topic name."""
        return self._topic.match(self.message.topic) or {}

    @property
    def topic(self) -> str:
        """The topic name."""
        return self.message.topic

    def __repr__(self) -> str:
        return f"<TypedMessage {self.message!r}>"



def _level(text: str) -> _Level:
    found = _PARAMETER.fullmatch(text)
    if found:
        return _Level(found[1], REST if found[2] else ONE)
    if _FORBIDDEN.search(text):
        raise _wrong(f"{text}: a level must be a fixed text or one {{parameter}}, without wildcards")
    return _Level(text, FIXED)


def _wrong(detail: str) -> MqttError:
    return MqttError("invalid_argument", detail)
