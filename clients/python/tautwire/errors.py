"""What can go wrong: one class of exceptions, with stable codes."""

from __future__ import annotations

from typing import Optional

from ._texts import TEXTS


class MqttError(Exception):
    """Why something was not done.

    The codes are listed in the documentation; a code never changes its meaning. `str()` is a sentence for people: what is wrong, what to do,
    what it was in this case, and the code in square brackets. It holds no payload and no password.
    """

    code: str
    """A stable name for programs and logs, such as `unreachable`."""
    reason: Optional[int]
    """The reason code of the packet that brought the error, such as 0x87; `None` where no packet did."""
    detail: Optional[str]
    """What it was in this case: an address, a filter, sizes, what the server said."""

    def __init__(self, code: str, detail: Optional[str] = None, reason: Optional[int] = None) -> None:
        super().__init__(code, detail, reason)
        self.code = code
        self.detail = detail
        self.reason = reason

    @classmethod
    def of_message(cls, code: str, message: str, reason: Optional[int]) -> MqttError:
        """The error of a message `TEXT (DETAIL) [CODE]`, or of one in words of its own."""
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
    """Raised by a responder to tell the requester why it failed, in this sentence. What other exceptions say is never told."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence)
        self.sentence = sentence
