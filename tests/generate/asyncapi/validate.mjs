// Prints the findings of AsyncAPI's own parser for a document: `node validate.mjs FILE`.

import { readFileSync } from "node:fs";
import { Parser } from "@asyncapi/parser";

// Errors and warnings; higher severities are hints, such as a later version of AsyncAPI.
const WARNING = 1;

const { document, diagnostics } = await new Parser().parse(readFileSync(process.argv[2], "utf8"));
const found = diagnostics.filter(({ severity }) => severity <= WARNING);
for (const { code, path, message } of found) console.error(`${code} ${path.join(".")}: ${message}`);
if (document === undefined || found.length > 0) process.exit(1);
const channels = document.channels().all();
console.log(`${document.version()}: ${channels.length} channels, ${document.operations().all().length} operations`);
