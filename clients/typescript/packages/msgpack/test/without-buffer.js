// Loaded before anything else: what a platform without `Buffer` looks like to the package.
const NodeBuffer = globalThis.Buffer;
delete globalThis.Buffer;
await import("@tautwire/msgpack");
// The tests themselves use it.
globalThis.Buffer = NodeBuffer;
