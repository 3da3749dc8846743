"""What happens to the connection."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .errors import MqttError

CONNECTED = "connected"
DISCONNECTED = "disconnected"
ATTEMPT_FAILED = "attempt_failed"
ENDED = "ended"


@dataclass(frozen=True)
class Event:
    """Something has happened to the connection."""

    kind: str
    """`connected`; `disconnected`, and the client tries again; `attempt_failed`; `ended`, for good."""
    session_present: bool = False
    """Of `connected`: the server went on with a session that it had."""
    error: Optional[MqttError] = None
    """Why there is no connection. Of `ended`: `None` where the application has closed the client."""


class History:
    """Makes events of one status after the other."""

    def __init__(self) -> None:
        self._was_connected = False

    def event(self, status: str, session_present: bool, error: Optional[MqttError]) -> Optional[Event]:
        """What the status tells that is new; `None` where it is nothing."""
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
        """A connection that breaks before the server has accepted it is no connection yet."""
        if error.code == "connection_lost" and not was_connected:
            return MqttError("handshake_failed", error.detail)
        return error
