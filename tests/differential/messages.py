"""The expected error message of a codec: the text of errors.toml, with the position."""

from __future__ import annotations

import sys
from pathlib import Path

ERRORS = Path(__file__).resolve().parents[2] / "spec" / "errors"
sys.path.insert(0, str(ERRORS))

import words  # noqa: E402

CODES = {code.name: code for code in words.read() if code.section == "codec"}
# Its errors are numbers: it gives only the text.
WITHOUT_MESSAGES = "c"


def fault(driver: str, line: str) -> str | None:
    """Returns what is wrong with the message in a driver's answer; None if it is correct, or not
    needed."""
    parts = line.split(" ", 4)
    if parts[0] in ("valid", "incomplete"):
        return None
    if len(parts) < 5 or parts[2] not in CODES:
        return "it is not CLASS REASON CODE OFFSET MESSAGE with a code of errors.toml"
    expected = _message(driver, parts[2], parts[3])
    return None if parts[4] == expected else f"the message is {parts[4]!r}, not {expected!r}"


def without(line: str) -> str:
    """Returns the answer without its message."""
    return line if line.startswith("valid ") else " ".join(line.split(" ", 4)[:4])


def _message(driver: str, code_name: str, offset: str) -> str:
    code = CODES[code_name]
    if driver == WITHOUT_MESSAGES:
        return code.text
    return f"{code.text} [{code.name}] at byte {offset}" + (f" ({code.statement})" if code.statement else "")
