// Marks the CommonJS build as such, because the package is an ES module; for programs and for types.
import { writeFileSync } from "node:fs";

writeFileSync(new URL("../dist/cjs/package.json", import.meta.url), '{ "type": "commonjs" }\n');
