"""The tables of the TypeScript packages."""

from words import Code, of

LINE_MAX = 120
WRITTEN = "// Written by `make errors` from spec/errors/errors.toml.\n"


def codes(codes: list[Code]) -> str:
    ours = of(codes, "typescript", "codec")
    decoded = "".join(
        f"  /** {_sentence(code)} */\n  {code.name}: 0x{code.reason:02x};\n"
        for code in ours
        if "decode" in code.used and code.fault != "incomplete"
    )
    encoded = "\n".join(f'  /** {_sentence(code)} */\n  | "{code.name}"' for code in ours if "encode" in code.used)
    return f"""\
{WRITTEN}
/** Each check that decoding makes, with what to do about it, and the reason code to answer with. */
export interface DecodeErrorReasons {{
{decoded}}}

/** A stable name for each check that decoding makes. */
export type DecodeErrorCode = keyof DecodeErrorReasons;

/** A stable name for each reason not to encode. The codecs in all languages share them; not each of them gives each. */
export type EncodeErrorCode =
{encoded};
"""


def codec(codes: list[Code]) -> str:
    rows = "".join(_row(code) for code in of(codes, "typescript", "codec") if code.fault != "incomplete")
    return f"""\
{WRITTEN}
import type {{ DecodeErrorCode, EncodeErrorCode }} from "./error-codes.js";

/** What is wrong and, after a colon, what to do; and the statement of MQTT 5.0 that is broken, if there is a numbered one. */
export type Words = readonly [text: string, statement?: string];

/** The words of each code. */
export const TEXTS: Readonly<Record<DecodeErrorCode | EncodeErrorCode, Words>> = {{
{rows}}};
"""


def client(codes: list[Code]) -> str:
    rows = "".join(_text(code) for code in of(codes, "typescript", "client"))
    return f"""\
{WRITTEN}
/** What is wrong and, after a colon, what to do, for each code of an error. */
export const TEXTS: Readonly<Record<string, string>> = {{
{rows}}};
"""


def _sentence(code: Code) -> str:
    return f"{code.text[0].upper()}{code.text[1:]}."


def _row(code: Code) -> str:
    words = [f'"{code.text}"'] + ([f'"{code.statement}"'] if code.statement else [])
    line = f"  {code.name}: [{', '.join(words)}],\n"
    if len(line) <= LINE_MAX + 1:
        return line
    return f"  {code.name}: [\n" + "".join(f"    {word},\n" for word in words) + "  ],\n"


def _text(code: Code) -> str:
    line = f'  {code.name}: "{code.text}",\n'
    return line if len(line) <= LINE_MAX + 1 else f'  {code.name}:\n    "{code.text}",\n'
