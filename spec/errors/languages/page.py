"""The page of all codes, for users."""

from words import REASONS, Code

NAMES = {"rust": "Rust", "go": "Go", "typescript": "TypeScript", "c": "C", "python": "Python"}


def page(codes: list[Code]) -> str:
    return f"""\
# Error codes

Every error of the clients and codecs has a code. Codes and texts are the same in all languages, and a code never changes its meaning:
test for the code, and show the text to users.

```text
FIELD: TEXT (DETAIL) [CODE] at byte OFFSET (STATEMENT)

topic: the topic name contains + or #: publish to one exact topic [topic_wildcard] at byte 8 (MQTT-3.3.2-2)
```

Unknown parts are omitted. The offset counts from the start of the packet, or of the string for a topic. Messages never contain payloads
or passwords. In TypeScript, bundles for browsers omit the texts unless they import `@tautwire/client/texts` and
`@tautwire/mqtt-codec/texts`; in C, `TW_TEXTS` includes them.

This page is generated from [errors.toml](../../spec/errors/README.md). For the reason codes that a server sends, see
[Reason codes](reason-codes.md).

## Clients

{_table(codes, "client", with_reason=False)}
C has these in addition. In C the caller provides the memory, and the last four name the rule that the server violated, where the other
languages return `protocol_error`.

{_table(codes, "c", with_reason=False)}
## SCRAM

Causes of `authentication_failed` in clients that can authenticate by SCRAM.

{_table(codes, "scram", with_reason=False)}
## Packets and topics

Errors of a codec in bytes to decode, in packets to encode, and in topic names and filters. The reason code is the receiver's answer to such a
packet.

{_table(codes, "codec", with_reason=True)}"""


def _table(codes: list[Code], section: str, with_reason: bool) -> str:
    ours = [code for code in codes if code.section == section]
    has_statements = any(code.statement for code in ours)
    heads = ["code", "what is wrong, and what to do"]
    heads += ["reason code"] * with_reason + ["statement"] * has_statements
    rows = [heads, ["---"] * len(heads)]
    for code in ours:
        cells = [f"`{code.name}`", _what(code)]
        if with_reason:
            cells.append(f"0x{code.reason:02X} {_spaced(REASONS[code.reason])}" if code.reason else "")
        if has_statements:
            cells.append(f"[{code.statement}]" if code.statement else "")
        rows.append(cells)
    return "".join("| " + " | ".join(row) + " |\n" if row[0] != "---" else "|" + "|".join(row) + "|\n" for row in rows)


def _what(code: Code) -> str:
    only = f" ({', '.join(NAMES[language] for language in code.only)})" if code.only else ""
    return code.text.replace("|", "\\|") + only


def _spaced(name: str) -> str:
    return "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in name).strip().capitalize()
