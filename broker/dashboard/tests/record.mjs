// Writes the recordings that the mock server uses: `TAUTWIRE=PROGRAM npm run record`.

import { mkdir, writeFile } from "node:fs/promises";
import { RECORDED, record } from "./support/recording.mjs";

await mkdir(new URL(".", RECORDED), { recursive: true });
await writeFile(RECORDED, `${JSON.stringify(await record(), null, 2)}\n`);
