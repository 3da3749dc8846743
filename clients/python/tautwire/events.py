"""Events of the connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional, Sequence

from .errors import MqttError

CONNECTED = "connected"
DISCONNECTED = "disconnected"
ATTEMPT_FAILED = "attempt_failed"
HELD_UP = "held_up"
ENDED = "ended"


@dataclass(frozen=True)
class Event:
    """An event of the connection."""

    kind: str
    """`connected`; `disconnected`, the client reconnects; `attempt_failed`; `held_up`, a full subscription has paused reading for a second,
    and its QoS 0 messages are dropped until it is read; `ended`, the client has ended."""
    session_present: bool = False
    """For `connected`: whether the server resumed an existing session."""
    error: Optional[MqttError] = None
    """The reason why there is no connection. For `ended`: `None` if the application closed the client."""
    filters: tuple[str, ...] = ()
    """For `held_up`: the filters of the subscription."""


class History:
    """Converts a sequence of statuses to events."""

    def __init__(self) -> None:
        self._was_connected = False

    def event(self, status: str, session_present: bool, error: Optional[MqttError], filters: Sequence[str]) -> Optional[Event]:
        """Returns the event of a status; `None` if the status is not an event."""
        if status == HELD_UP:
            return Event(HELD_UP, filters=tuple(filters))
        if status == "online":
            self._was_connected = True
            return Event(CONNECTED, session_present)
        if status == "connecting" or error is None:
            return None
        was_connected, self._was_connected = self._was_connected, False
        if status == "closed":
            return Event(ENDED, error=None if error.code == "closed" else self._named(error, was_connected))
        return Event(DISCONNECTED if was_connected else ATTEMPT_FAILED, error=self._named(error, was_connected))

    @staticmethod
    def _named(error: MqttError, was_connected: bool) -> MqttError:
        """Before the server has accepted the connection, a lost connection is a failed handshake."""
        if error.code == "connection_lost" and not was_connected:
            return MqttError("handshake_failed", error.detail)
        return error
