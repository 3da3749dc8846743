"""Messages of a contract."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, Optional, TypeVar

import tautwire

V = TypeVar("V")
P = TypeVar("P")

TRANSCODING_ERROR = "tautwire-transcoding-error"
"""Marks a message that the broker could not transcode to the requested format."""


@dataclass(frozen=True)
class Received(Generic[V, P]):
    """A message of a contract."""

    message: tautwire.Message
    """The received message."""
    parameters: P
    """The parameters of its topic."""
    error: Optional[tautwire.MqttError]
    """Why the payload could not be decoded."""
    _value: Optional[V]

    @property
    def value(self) -> V:
        """The payload. Raises `MqttError` with the code `payload_invalid` if it could not be decoded."""
        if self.error is not None or self._value is None:
            raise self.error or tautwire.MqttError("payload_invalid")
        return self._value


def accepting(options: tautwire.SubscribeOptions, content_type: str) -> tautwire.SubscribeOptions:
    """Publishers may use other formats: requests this one from the broker."""
    given = options.get("user_properties", ())
    listed = list(given.items()) if isinstance(given, Mapping) else list(given)
    return {**options, "user_properties": [*listed, ("accept", content_type)]}


def received(typed: tautwire.TypedMessage[V], parameters: Callable[..., P]) -> Received[V, P]:
    """A message with its decoded payload."""
    message, levels = typed.message, parameters(**typed.params)
    for name, why in message.user_properties:
        if name == TRANSCODING_ERROR:
            return Received(message, levels, tautwire.MqttError("payload_invalid", why), None)
    try:
        return Received(message, levels, None, typed.value)
    except tautwire.MqttError as error:
        return Received(message, levels, error, None)
