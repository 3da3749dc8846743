import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { copyFileSync, existsSync, mkdirSync, readFileSync, statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { FileStore, type FileStoreOptions } from "@tautwire/client/file-store";
import { MemoryStore, type StoredSession } from "@tautwire/client/store";
import { CHANGES, plain, SESSION } from "./support/changes.js";
import { temporaryFolder } from "./support/folder.js";
import { failure, within } from "./support/waiting.js";

const HEADER_BYTES = 16;
const OF_GO = fileURLToPath(new URL("../../test/fixtures/session-file", import.meta.url));

const folder = temporaryFolder();
let files = 0;

function newFile(): string {
  return join(folder, `session ${++files}`);
}

/** Opens the file, loads its session, and closes it again. */
async function sessionIn(path: string): Promise<StoredSession> {
  const store = await FileStore.open(path);
  const session = store.load();
  await store.close();
  return session;
}

async function fill(path: string, options?: FileStoreOptions): Promise<FileStore> {
  const store = await FileStore.open(path, options);
  store.load();
  for (const change of CHANGES) store.record(change);
  return store;
}

test("recorded changes are restored when the file is opened again", async () => {
  const path = newFile();
  await (await fill(path)).close();
  assert.deepEqual(plain(await sessionIn(path)), plain(SESSION));
});

test("reads a file of the clients in Go and Rust, and writes the same file for the same changes", async () => {
  const path = newFile();
  copyFileSync(OF_GO, path);
  assert.deepEqual(plain(await sessionIn(path)), plain(SESSION));
  const own = newFile();
  await (await fill(own)).close();
  assert.deepEqual(readFileSync(own), readFileSync(OF_GO));
});

test("a crash at any byte loses only unsynced changes", async () => {
  const path = newFile();
  const store = await FileStore.open(path, { sync: false });
  const model = new MemoryStore();
  const states = [plain(model.load())];
  const ends = [HEADER_BYTES];
  for (const change of CHANGES) {
    store.record(change);
    await store.sync();
    model.record(change);
    states.push(plain(model.load()));
    ends.push(statSync(path).size);
  }
  await store.close();
  const whole = readFileSync(path);
  const tails = [[], [0], Array<number>(100).fill(0), Array<number>(100).fill(0xff)];
  for (let length = 0; length <= whole.length; length++) {
    const tail = length < HEADER_BYTES ? [] : tails[length % tails.length]!;
    const torn = join(folder, "torn");
    const content = Buffer.concat([whole.subarray(0, length), Buffer.from(tail)]);
    writeFileSync(torn, content);
    // The removed bytes may equal the tail.
    const kept = ends.filter((end) => content.subarray(0, end).equals(whole.subarray(0, end))).length - 1;
    const again = await FileStore.open(torn, { sync: false });
    assert.deepEqual(plain(again.load()), states[Math.max(0, kept)], `cut at ${length}`);
    assert.equal(again.droppedBytes, content.length - (ends[kept] ?? 0));
    again.record({ kind: "queued", sequence: 99, version: 5, packet: Uint8Array.of(1) });
    await again.close();
    const last = await FileStore.open(torn, { sync: false });
    assert.equal(last.load().outgoing.at(-1)!.sequence, 99);
    assert.equal(last.droppedBytes, 0);
    await last.close();
  }
});

test("a file that is not a session store is left unchanged", async () => {
  const path = newFile();
  writeFileSync(path, "something that matters to somebody");
  const error = await failure(FileStore.open(path));
  assert.equal(error.code, "store_corrupt");
  assert.match(error.message, /move it away/);
  assert.equal(readFileSync(path, "utf8"), "something that matters to somebody");
  assert.ok(!existsSync(`${path}.pid`), "the lock was given back");
});

test("a missing directory is an error of this package", async () => {
  assert.equal((await failure(FileStore.open(join(folder, "none", "session")))).code, "store_failed");
});

test("compacts the file when most of it is garbage, while changes continue", async () => {
  const path = newFile();
  const store = await fill(path, { compactBytes: 2_000 });
  const model = new MemoryStore();
  for (const change of CHANGES) model.record(change);
  const packet = new Uint8Array(100);
  let largest = 0;
  for (let sequence = 10; sequence < 400; sequence++) {
    const isKept = sequence % 50 === 0;
    for (const kind of ["queued", "sent", "released", "done"] as const) {
      if (isKept && kind === "released") break;
      const change = { kind, sequence, version: 5, packetId: sequence, packet } as const;
      store.record(change);
      model.record(change);
      // Not awaited, so that some changes are recorded during a compaction.
      if (sequence % 7 === 0) void store.sync();
    }
    if (sequence % 20 === 0) await store.sync();
    largest = Math.max(largest, statSync(path).size);
  }
  await store.close();
  // 390 messages of 188 bytes were written.
  assert.ok(largest < 20_000, `${largest} bytes`);
  assert.deepEqual(plain(await sessionIn(path)), plain(model.load()));
  assert.ok(!existsSync(`${path}.new`));
});

test("removes the temporary file of an interrupted compaction", async () => {
  const path = newFile();
  await (await fill(path)).close();
  writeFileSync(`${path}.new`, "half");
  assert.deepEqual(plain(await sessionIn(path)), plain(SESSION));
  assert.ok(!existsSync(`${path}.new`));
});

test("one sync serves all waiters", async () => {
  const path = newFile();
  const store = await fill(path);
  const first = store.sync();
  assert.equal(store.sync(), first);
  await first;
  await store.close();
  store.record({ kind: "completed", packetId: 3 });
  assert.match((await failure(store.sync())).message, /the store is closed.*\[store_failed\]/);
  assert.deepEqual(plain(await sessionIn(path)), plain(SESSION));
});

test("an open file cannot be opened again, in this process or another one", async () => {
  const path = newFile();
  const store = await FileStore.open(path);
  assert.equal((await failure(FileStore.open(path))).code, "store_in_use");
  const script = `
    import { FileStore } from "@tautwire/client/file-store";
    await FileStore.open(${JSON.stringify(path)}).then((store) => store.close(), ({ code }) => console.log(code));`;
  const other = () => spawnSync(process.execPath, ["--input-type=module", "-e", script], { encoding: "utf8", cwd: new URL("../..", import.meta.url) });
  assert.equal(other().stdout, "store_in_use\n");
  await store.close();
  const { stdout, stderr } = other();
  assert.deepEqual([stdout, stderr], ["", ""]);
});

test("the lock of a killed process does not block others", async () => {
  const path = newFile();
  const script = `
    import { FileStore } from "@tautwire/client/file-store";
    const store = await FileStore.open(${JSON.stringify(path)});
    store.record({ kind: "began", clientId: "killed" });
    await store.sync();
    process.stdout.write("open");
    setInterval(() => undefined, 1000);`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], { cwd: new URL("../..", import.meta.url) });
  await within(once(child.stdout, "data"), "word of the child");
  assert.equal((await failure(FileStore.open(path))).code, "store_in_use");
  child.kill("SIGKILL");
  await once(child, "exit");
  assert.equal((await sessionIn(path)).clientId, "killed");
});

test("neither a reused process identifier nor a truncated lock file blocks others", async () => {
  const path = newFile();
  for (const content of [JSON.stringify({ pid: process.pid, began: "1", place: "elsewhere" }), '{"pid":', ""]) {
    writeFileSync(`${path}.pid`, content);
    await sessionIn(path);
  }
  // The guard of a process that was killed while it held it.
  mkdirSync(`${path}.pid.guard`);
  utimesSync(`${path}.pid.guard`, 0, 0);
  await within(sessionIn(path), "session");
});

test("detects a file that a client in Go or Rust has open", { skip: process.platform !== "linux" }, async () => {
  const path = newFile();
  const child = spawn("flock", [`${path}.lock`, "-c", "echo locked; read line"]);
  await within(once(child.stdout, "data"), "lock");
  const error = await failure(FileStore.open(path));
  child.stdin.end("\n");
  await once(child, "exit");
  assert.equal(error.code, "store_in_use");
  await sessionIn(path);
});
