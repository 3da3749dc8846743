// Checks that the files loaded by a browser are within the size limit.

import { readFile } from "node:fs/promises";
import { SERVED } from "./build.mjs";

/** Compressed, all files together. */
const MAX_BYTES = 120 * 1024;

const sizes = await Promise.all(SERVED.map(async (name) => (await readFile(new URL(`dist/${name}.gz`, import.meta.url))).length));
const total = sizes.reduce((sum, size) => sum + size, 0);
console.log(`dashboard: ${total} bytes compressed, at most ${MAX_BYTES}: ${SERVED.map((name, at) => `${name} ${sizes[at]}`).join(", ")}`);
process.exitCode = total <= MAX_BYTES ? 0 : 1;
