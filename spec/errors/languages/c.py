"""The texts of the C library, for the errors that its header declares."""

from __future__ import annotations

import re
from pathlib import Path

from words import Code, of

TYPES = Path(__file__).resolve().parents[3] / "clients/c/include/tautwire/types.h"
LINE_MAX = 120
# If the header has one enumerator for an error of both the codec and the client, it has the codec's text.
SECTIONS = ("codec", "client", "c", "scram")


def texts(codes: list[Code]) -> str:
    by_name = by_enumerator(codes)
    rows = "".join(_row(name, by_name[name].text) for name in enumerators() if name in by_name)
    return f"""\
/* Written by `make errors` from spec/errors/errors.toml and types.h. */

typedef struct error_text {{
    int16_t error;
    const char *text;
}} error_text;

static const error_text ERROR_TEXTS[] = {{
{rows}}};
"""


def by_enumerator(codes: list[Code]) -> dict[str, Code]:
    found: dict[str, Code] = {}
    for section in SECTIONS:
        for code in of(codes, "c", section):
            found.setdefault(code.c, code)
    return found


def enumerators() -> dict[str, int]:
    """Returns the errors that the header declares, with their values, in its order."""
    declared = re.search(r"typedef enum tw_error \{(.*?)\} tw_error;", TYPES.read_text(), re.S)[1]
    return {name: int(value) for name, value in re.findall(r"^\s+(TW_\w+) = (-\d+)", declared, re.M)}


def _row(name: str, text: str) -> str:
    line = f'    {{{name}, "{text}"}},\n'
    if len(line) <= LINE_MAX + 1:
        return line
    return f'    {{{name},\n     {_literal(text)}}},\n'


def _literal(text: str) -> str:
    """Splits a string literal to fit the line width."""
    room = LINE_MAX - len('     ""},')
    pieces = []
    while len(text) > room:
        cut = text.rindex(" ", 0, room) + 1
        pieces.append(text[:cut])
        text = text[cut:]
    return "\n     ".join(f'"{piece}"' for piece in [*pieces, text])
