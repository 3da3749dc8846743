// Loaded first: simulates a platform without `Buffer`.
const NodeBuffer = globalThis.Buffer;
delete globalThis.Buffer;
await import("@tautwire/msgpack");
// The tests themselves use it.
globalThis.Buffer = NodeBuffer;
