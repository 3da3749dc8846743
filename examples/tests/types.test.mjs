// Checks that every snippet of the MQTT.js guide and every example compiles.

import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { blocks, root, toolOf } from "./support.mjs";

const ts = toolOf("typescript");
const GUIDE = "docs/guides/from-mqttjs.md";
const OPTIONS = {
  target: ts.ScriptTarget.ES2022,
  lib: ["lib.es2022.d.ts", "lib.dom.d.ts", "lib.dom.iterable.d.ts"],
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  moduleDetection: ts.ModuleDetectionKind.Force,
  strict: true,
  noUncheckedIndexedAccess: true,
  noImplicitOverride: true,
  noUnusedLocals: true,
  esModuleInterop: true,
  skipLibCheck: true,
  allowJs: true,
  checkJs: true,
  noEmit: true,
  types: ["node"],
  typeRoots: [`${root}clients/typescript/node_modules/@types`],
};

/** Returns the compiler's diagnostics for these files: texts by path, or null for files on disk. */
function faults(files) {
  const host = ts.createCompilerHost(OPTIONS);
  const { fileExists, readFile, getSourceFile } = host;
  host.fileExists = (path) => files.has(path) || fileExists(path);
  host.readFile = (path) => files.get(path) ?? readFile(path);
  host.getSourceFile = (path, version) => {
    const text = files.get(path);
    return text == null ? getSourceFile.call(host, path, version) : ts.createSourceFile(path, text, version);
  };
  const program = ts.createProgram([...files.keys()], OPTIONS, host);
  return ts.getPreEmitDiagnostics(program).map(({ file, start, messageText }) => {
    const line = file === undefined ? 0 : file.getLineAndCharacterOfPosition(start).line + 1;
    return `${file?.fileName}:${line}: ${ts.flattenDiagnosticMessageText(messageText, " ")}`;
  });
}

test("every snippet of the guide compiles, including those of MQTT.js", () => {
  const snippets = blocks(readFileSync(root + GUIDE, "utf8"), "ts");
  assert.ok(snippets.length >= 10);
  // They are modules of the TypeScript workspace, where both libraries are installed.
  const files = new Map(snippets.map((text, at) => [`${root}clients/typescript/packages/client/snippet-${at + 1}.ts`, text]));
  assert.deepEqual(faults(files), []);
});

test("every name of the client in the guide exists", () => {
  const declared = readdirSync(`${root}clients/typescript/packages/client/dist/esm`, { recursive: true })
    .filter((name) => name.endsWith(".d.ts"))
    .map((name) => readFileSync(`${root}clients/typescript/packages/client/dist/esm/${name}`, "utf8"))
    .join("\n");
  const rows = [...readFileSync(root + GUIDE, "utf8").matchAll(/^\| (?:`|\()[^|]*\| ([^|]*)\|/gm)].map((match) => match[1]);
  const names = rows.flatMap((row) => [...row.matchAll(/`\.?([a-zA-Z]\w*)/g)].map((match) => match[1]));
  assert.ok(names.length > 30);
  const unknown = names.filter((name) => !["await", "bin", "false", "sub"].includes(name) && !new RegExp(`\\b${name}\\b`).test(declared));
  assert.deepEqual(unknown, []);
});

test("every example passes the compiler's checks", () => {
  const folders = ["sensor-node", "live-page", "request-response"].map((name) => `${root}examples/${name}/`);
  const files = folders.flatMap((folder) => readdirSync(folder).filter((name) => /\.m?js$/.test(name)).map((name) => folder + name));
  assert.deepEqual(faults(new Map(files.map((path) => [path, null]))), []);
});
