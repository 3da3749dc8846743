"""Exceptions, with stable codes."""

from __future__ import annotations

from typing import Optional

from ._texts import TEXTS


class MqttError(Exception):
    """The exception class of this package.

    The codes are listed in the documentation; a code never changes its meaning. `str()` says what is wrong, what to do, the detail of this
    case, and the code in square brackets. It contains no payload and no password.
    """

    code: str
    """A stable name for programs and logs, such as `unreachable`."""
    reason: Optional[int]
    """The reason code of the packet that caused the error, such as 0x87, or `None`."""
    detail: Optional[str]
    """The details of this case: an address, a filter, sizes, the reason string of the server."""

    def __init__(self, code: str, detail: Optional[str] = None, reason: Optional[int] = None) -> None:
        super().__init__(code, detail, reason)
        self.code = code
        self.detail = detail
        self.reason = reason

    @classmethod
    def of_message(cls, code: str, message: str, reason: Optional[int]) -> MqttError:
        """Parses a message of the form `TEXT (DETAIL) [CODE]`, or one with a custom text."""
        said = message.removesuffix(f" [{code}]")
        text = TEXTS.get(code)
        if text is None or not said.startswith(text):
            return cls(code, said, reason)
        return cls(code, said[len(text) :].strip().removeprefix("(").removesuffix(")") or None, reason)

    def __str__(self) -> str:
        text = TEXTS.get(self.code)
        if text is None:
            return f"{self.detail} [{self.code}]" if self.detail else f"[{self.code}]"
        return f"{text} ({self.detail}) [{self.code}]" if self.detail else f"{text} [{self.code}]"


class ResponseFailure(Exception):
    """Raised by a responder to send the requester this message. The messages of other exceptions are never sent."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message
