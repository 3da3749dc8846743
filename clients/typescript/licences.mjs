// Copies the licence texts into the package that npm is about to pack. They are stored once, at the top of the repository.

import { copyFileSync } from "node:fs";

for (const name of ["LICENSE-APACHE", "LICENSE-MIT"]) copyFileSync(new URL(`../../${name}`, import.meta.url), name);
