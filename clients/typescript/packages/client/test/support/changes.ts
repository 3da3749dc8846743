import type { Change, StoredSession } from "@tautwire/client/store";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

/** Changes of a session with every kind. The Go client wrote the same ones to fixtures/session-file. */
export const CHANGES: readonly Change[] = [
  { kind: "began", clientId: "old" },
  { kind: "received", packetId: 1 },
  { kind: "queued", sequence: 1, version: 5, packet: bytes("one") },
  { kind: "queued", sequence: 2, version: 5, packet: bytes("two") },
  { kind: "began", clientId: "meter" },
  { kind: "sent", sequence: 1, packetId: 6 },
  { kind: "sent", sequence: 2, packetId: 7 },
  { kind: "queued", sequence: 3, version: 4, packet: bytes("three") },
  { kind: "received", packetId: 3 },
  { kind: "received", packetId: 4 },
  { kind: "sent", sequence: 3, packetId: 8 },
  { kind: "unsent", sequence: 3 },
  { kind: "released", sequence: 2 },
  { kind: "done", sequence: 1 },
  { kind: "completed", packetId: 4 },
  { kind: "sent", sequence: 3, packetId: 9 },
  { kind: "queued", sequence: 4, version: 5, packet: bytes("four") },
  { kind: "received", packetId: 65_535 },
];

/** The session that results from them. */
export const SESSION: StoredSession = {
  clientId: "meter",
  outgoing: [
    { sequence: 2, packetId: 7, release: 1, version: 5, packet: null },
    { sequence: 3, packetId: 9, release: 0, version: 4, packet: bytes("three") },
    { sequence: 4, packetId: 0, release: 0, version: 5, packet: bytes("four") },
  ],
  received: [3, 65_535],
};

/** Converts a session to plain arrays of bytes, for comparisons. */
export function plain({ outgoing, ...session }: StoredSession): unknown {
  return { ...session, outgoing: outgoing.map((each) => ({ ...each, packet: each.packet === null ? null : Array.from(each.packet) })) };
}
