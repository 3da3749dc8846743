import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after } from "node:test";

/** A folder that is there until the tests of the file have ended. */
export function temporaryFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), "tautwire-client-"));
  after(() => {
    rmSync(folder, { recursive: true, force: true });
  });
  return folder;
}
