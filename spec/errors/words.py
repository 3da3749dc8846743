"""Reads and validates errors.toml."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path

FILE = Path(__file__).resolve().parent / "errors.toml"
LANGUAGES = ("rust", "go", "typescript", "c", "python")
# The sections, and the keys allowed in each in addition to `text`. The clients of all languages have the codes of `client`, unless
# `only` lists some.
SECTIONS = {
    "client": {"statement", "only", "c"},
    "c": {"statement", "c"},
    "codec": {"statement", "only", "c", "fault", "reason", "used"},
    "scram": {"statement", "c"},
}
FAULTS = ("incomplete", "malformed", "protocol_error", "too_large", "use")
USES = ("decode", "encode", "topic")
# The reason codes that answer an invalid packet, as the languages name them.
REASONS = {
    0x81: "MalformedPacket",
    0x82: "ProtocolError",
    0x84: "UnsupportedProtocolVersion",
    0x85: "ClientIdentifierNotValid",
    0x8F: "TopicFilterInvalid",
    0x90: "TopicNameInvalid",
    0x94: "TopicAliasInvalid",
    0x95: "PacketTooLarge",
}


@dataclass(frozen=True)
class Code:
    section: str
    name: str
    text: str
    statement: str | None
    fault: str | None
    reason: int | None
    used: tuple[str, ...]
    only: tuple[str, ...]
    c: str

    def is_in(self, language: str) -> bool:
        return not self.only or language in self.only


def read(path: Path = FILE) -> list[Code]:
    """Returns all codes, in the order of the file. Raises ValueError if the file is invalid."""
    return parse(path.read_text())


def parse(text: str) -> list[Code]:
    sections = tomllib.loads(text)
    _known(sections, SECTIONS, "section")
    return [_code(section, name, entry) for section, codes in sections.items() for name, entry in codes.items()]


def of(codes: list[Code], language: str, section: str) -> list[Code]:
    return [code for code in codes if code.section == section and code.is_in(language)]


def _code(section: str, name: str, entry: dict) -> Code:
    where = f"{section}.{name}"
    _known(entry, {"text"} | SECTIONS[section], f"key of {where}")
    code = Code(
        section=section,
        name=name,
        text=entry.get("text", ""),
        statement=entry.get("statement"),
        fault=entry.get("fault"),
        reason=entry.get("reason"),
        used=tuple(entry.get("used", ())),
        only=tuple(entry.get("only", ())),
        c=entry.get("c", f"TW_{name.upper()}"),
    )
    wrong, _, remedy = code.text.partition(": ")
    if not wrong or not remedy or code.text.endswith(".") or '"' in code.text or "\\" in code.text:
        raise ValueError(f"{where}: the text is not `what is wrong: what to do`, without a full stop and quotes")
    _known(code.only, LANGUAGES, f"language of {where}")
    if section == "codec":
        _known({code.fault}, FAULTS, f"fault of {where}")
        _known(code.used, USES, f"use of {where}")
        if not code.used:
            raise ValueError(f"{where}: nothing uses it")
        if (code.fault == "use") != (code.reason is None):
            raise ValueError(f"{where}: a fault in a packet has a reason code, a wrong call has none")
        if code.reason is not None:
            _known({code.reason}, REASONS, f"reason of {where}")
    return code


def _known(names, allowed, what: str) -> None:
    if unknown := [name for name in names if name not in allowed]:
        raise ValueError(f"{unknown[0]!r} is no {what}: one of {', '.join(map(str, sorted(allowed, key=str)))}")
