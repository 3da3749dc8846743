// Keeps a second process from opening a session. Node.js has no lock that ends with the process which holds it, so the file says who does,
// in a way that tells another process with the same number apart.

import { mkdirSync, readFileSync, readlinkSync, rmdirSync, statSync, unlinkSync, writeFileSync } from "node:fs";
import { MqttError } from "../../errors.js";

/** Somebody who looks at the lock holds a guard for a moment. One that is older was left by a process that was killed right then. */
const GUARD_MAX_MS = 2_000;
const GUARD_PAUSE_MS = 5;

interface Owner {
  readonly pid: number;
  /** When the process began, where the system says so. */
  readonly began: string;
  /** The start of the machine and the container, where the system says so: the numbers of processes of another one mean nothing here. */
  readonly place: string;
}

/**
 * Takes the lock of a session file. The result gives it back.
 *
 * @throws {MqttError} `store_in_use`
 */
export async function lock(path: string): Promise<() => void> {
  const pidPath = `${path}.pid`;
  await guarded(pidPath, () => {
    const owner = read(pidPath);
    const pid = owner !== null && isAlive(owner) ? owner.pid : holderOfFlock(`${path}.lock`);
    if (pid !== undefined) throw new MqttError("store_in_use", `${path}, by process ${pid}`);
    writeFileSync(pidPath, JSON.stringify(self()), { mode: 0o600 });
  });
  return () => {
    unlinkSync(pidPath);
  };
}

/** Runs the function, which must not wait, while nobody else does. */
async function guarded(path: string, run: () => void): Promise<void> {
  const guard = `${path}.guard`;
  while (!take(guard)) await new Promise((resolve) => setTimeout(resolve, GUARD_PAUSE_MS));
  try {
    run();
  } finally {
    rmdirSync(guard);
  }
}

function take(guard: string): boolean {
  try {
    mkdirSync(guard);
    return true;
  } catch (error) {
    if (codeOf(error) !== "EEXIST") throw error;
  }
  const found = statSync(guard, { throwIfNoEntry: false });
  if (found !== undefined && Date.now() - found.mtimeMs > GUARD_MAX_MS) {
    try {
      rmdirSync(guard);
    } catch {
      // Somebody else was faster.
    }
  }
  return false;
}

function read(path: string): Owner | null {
  try {
    const owner = JSON.parse(readFileSync(path, "utf8")) as Partial<Owner> | null;
    const { pid, began = "", place = "" } = owner ?? {};
    return Number.isInteger(pid) ? { pid: pid!, began, place } : null;
  } catch (error) {
    // It was cut off, or there is none.
    if (error instanceof SyntaxError || codeOf(error) === "ENOENT") return null;
    throw error;
  }
}

function self(): Owner {
  return { pid: process.pid, began: beginOf(process.pid), place: place() };
}

function isAlive({ pid, began, place: elsewhere }: Owner): boolean {
  if (elsewhere !== place() || began !== beginOf(pid)) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // It is there, and of another user.
    return codeOf(error) === "EPERM";
  }
}

/** The process that has locked this file as the clients in Go and Rust do, where the system tells. */
function holderOfFlock(path: string): string | undefined {
  const found = quietly(() => {
    const { dev, ino } = statSync(path);
    const major = ((dev >>> 8) & 0xfff).toString(16).padStart(2, "0");
    const minor = ((dev & 0xff) | ((dev >>> 12) & 0xfff00)).toString(16).padStart(2, "0");
    const place = ` ${major}:${minor}:${ino} `;
    const line = readFileSync("/proc/locks", "utf8").split("\n").find((each) => each.includes("FLOCK") && each.includes(place));
    return /WRITE +(\d+)/.exec(line ?? "")?.[1] ?? "";
  });
  return found || undefined;
}

/** Linux says when a process began, in the 22nd field; the second one is its name, which may hold anything. */
function beginOf(pid: number): string {
  return quietly(() => {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8");
    return fields.slice(fields.lastIndexOf(")") + 2).split(" ")[19] ?? "";
  });
}

function place(): string {
  return quietly(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim() + readlinkSync("/proc/self/ns/pid"));
}

function quietly(read: () => string): string {
  try {
    return read();
  } catch {
    return "";
  }
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
