// The tarball has the licences of the repository, which are at its root.
import { copyFileSync } from "node:fs";

for (const name of ["LICENSE-APACHE", "LICENSE-MIT"]) {
  copyFileSync(new URL(`../../../../../${name}`, import.meta.url), new URL(`../${name}`, import.meta.url));
}
