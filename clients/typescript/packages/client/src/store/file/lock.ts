// Prevents two processes from opening the same session. Node.js has no lock that the system releases when the process ends, so a file
// identifies the owner, with enough details to recognize another process with the same process identifier.

import { mkdirSync, readFileSync, readlinkSync, rmdirSync, statSync, unlinkSync, writeFileSync } from "node:fs";
import { MqttError } from "../../errors.js";

/** A process holds the guard only while it checks the lock. An older guard was left by a process that was killed. */
const GUARD_MAX_MS = 2_000;
const GUARD_PAUSE_MS = 5;

interface Owner {
  readonly pid: number;
  /** The start time of the process, if the system tells it. */
  readonly began: string;
  /** The boot of the machine and the container, if the system tells them: process identifiers of other ones have no meaning here. */
  readonly place: string;
}

/**
 * Takes the lock of a session file. Returns a function that releases it.
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

/** Runs the function, which must be synchronous, while this process holds the guard. */
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
      // Another process has removed it.
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
    // The file is incomplete, or does not exist.
    if (error instanceof SyntaxError || codeOf(error) === "ENOENT") return null;
    throw error;
  }
}

function self(): Owner {
  return { pid: process.pid, began: startOf(process.pid), place: place() };
}

function isAlive({ pid, began, place: elsewhere }: Owner): boolean {
  if (elsewhere !== place() || began !== startOf(pid)) return false;
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // The process exists and belongs to another user.
    return codeOf(error) === "EPERM";
  }
}

/** Returns the process that has locked this file with flock, like the clients in Go and Rust, if the system tells it. */
function holderOfFlock(path: string): string | undefined {
  const found = orEmpty(() => {
    const { dev, ino } = statSync(path);
    const major = ((dev >>> 8) & 0xfff).toString(16).padStart(2, "0");
    const minor = ((dev & 0xff) | ((dev >>> 12) & 0xfff00)).toString(16).padStart(2, "0");
    const place = ` ${major}:${minor}:${ino} `;
    const line = readFileSync("/proc/locks", "utf8").split("\n").find((each) => each.includes("FLOCK") && each.includes(place));
    return /WRITE +(\d+)/.exec(line ?? "")?.[1] ?? "";
  });
  return found || undefined;
}

/** Returns the start time of a process on Linux: the 22nd field. The second field is its name, which may contain any character. */
function startOf(pid: number): string {
  return orEmpty(() => {
    const fields = readFileSync(`/proc/${pid}/stat`, "utf8");
    return fields.slice(fields.lastIndexOf(")") + 2).split(" ")[19] ?? "";
  });
}

function place(): string {
  return orEmpty(() => readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim() + readlinkSync("/proc/self/ns/pid"));
}

function orEmpty(read: () => string): string {
  try {
    return read();
  } catch {
    return "";
  }
}

function codeOf(error: unknown): string | undefined {
  return (error as NodeJS.ErrnoException).code;
}
