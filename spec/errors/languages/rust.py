"""The tables of the Rust crates, in macros and constants that rustfmt does not change."""

from words import REASONS, Code, of

LINE_MAX = 120
WORDS = {"qos": "QoS", "connack": "ConnAck"}
FAULTS = {
    "incomplete": "Incomplete",
    "malformed": "Malformed",
    "protocol_error": "ProtocolError",
    "too_large": "OverLimit",
}


def codec(codes: list[Code]) -> str:
    ours = of(codes, "rust", "codec")
    causes = "".join(_cause(code) for code in ours if "decode" in code.used)
    others = "".join(_words(code) for code in ours if "decode" not in code.used)
    return f"""\
//! Written by `make errors` from `spec/errors/errors.toml`.

use super::cause::causes;
use super::words::{{Words, words}};

causes! {{
{causes}}}

words! {{
{others}}}
"""


def client(codes: list[Code]) -> str:
    pairs = "".join(_pair(code) for code in of(codes, "rust", "client"))
    return f"""\
//! Written by `make errors` from `spec/errors/errors.toml`.

/// Code and text: what is wrong and, after a colon, what to do.
pub(super) const TEXTS: &[(&str, &str)] = &[
{pairs}];
"""


def _cause(code: Code) -> str:
    variant = "".join(WORDS.get(word, word.capitalize()) for word in code.name.split("_"))
    head = f'{variant}: "{code.name}", {FAULTS[code.fault]} {REASONS[code.reason]}, {_statement(code)},'
    return f'    {head}\n        "{code.text}";\n'


def _words(code: Code) -> str:
    return f'    {code.name.upper()}: "{code.name}", {_statement(code)},\n        "{code.text}";\n'


def _statement(code: Code) -> str:
    return f'Some("{code.statement}")' if code.statement else "None"


def _pair(code: Code) -> str:
    line = f'    ("{code.name}", "{code.text}"),\n'
    return line if len(line) <= LINE_MAX + 1 else f'    (\n        "{code.name}",\n        "{code.text}",\n    ),\n'
