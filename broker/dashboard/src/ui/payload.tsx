// A payload in readable form: decoded by its contract, as text, or as a hex dump.

import type { JSX } from "preact";
import type { Payload } from "../api/shapes";
import { count } from "../format";

/** The maximum that is shown; more would slow the page down. */
const SHOWN_MAX_CHARS = 64 * 1024;
const DUMPED_MAX_BYTES = 1_024;
const BYTES_PER_LINE = 16;

export function PayloadView({ payload }: { payload: Payload }): JSX.Element {
  const [kind, text] = readable(payload);
  return (
    <>
      <p class="faint">{kind}</p>
      <pre tabIndex={0} role="group" aria-label={`Payload, ${kind}`}>
        {text.slice(0, SHOWN_MAX_CHARS)}
      </pre>
      {text.length > SHOWN_MAX_CHARS && <p class="faint">The first {count(SHOWN_MAX_CHARS)} characters are shown.</p>}
    </>
  );
}

/** On one line, for a row of a table. */
export function oneLine(payload: Payload, maxChars: number): string {
  const text = payload.decoded === undefined ? readable(payload)[1].replaceAll(/\s+/g, " ") : JSON.stringify(payload.decoded);
  return text.length > maxChars ? `${text.slice(0, maxChars)}…` : text;
}

function readable({ decoded, text, payload_base64: base64 }: Payload): readonly [kind: string, text: string] {
  if (decoded !== undefined) {
    return ["decoded by its contract", JSON.stringify(decoded, null, 2)];
  }
  if (text !== undefined) {
    return ["text", text === "" ? "(empty)" : text];
  }
  return ["bytes", hexDump(base64 ?? "")];
}

function hexDump(base64: string): string {
  const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  const lines: string[] = [];
  for (let at = 0; at < Math.min(bytes.length, DUMPED_MAX_BYTES); at += BYTES_PER_LINE) {
    const line = [...bytes.subarray(at, at + BYTES_PER_LINE)];
    const hex = line.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const chars = line.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex.padEnd(BYTES_PER_LINE * 3 - 1)}  ${chars}`);
  }
  if (bytes.length > DUMPED_MAX_BYTES) {
    lines.push(`… ${count(bytes.length - DUMPED_MAX_BYTES)} more bytes`);
  }
  return lines.length === 0 ? "(empty)" : lines.join("\n");
}
