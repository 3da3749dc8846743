// Builds the dashboard into dist/, which is committed, so that building the broker needs no Node.js.

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { build } from "esbuild";

const HERE = dirname(fileURLToPath(import.meta.url));

/** The files that the broker serves. Each is in dist/ as it is and, with `.gz`, compressed. */
export const SERVED = ["index.html", "app.js", "app.css"];

/** Packages whose code is in app.js and app.css. */
const SHIPPED = Object.keys(JSON.parse(await readFile(join(HERE, "package.json"), "utf8")).dependencies);

/** The files of dist/ by name, except the compressed ones. */
export async function files() {
  const built = await build({
    absWorkingDir: HERE,
    entryPoints: { app: "src/main.tsx" },
    outdir: "dist",
    bundle: true,
    write: false,
    minify: true,
    format: "esm",
    target: ["es2022", "chrome111", "firefox115", "safari16.4"],
    jsx: "automatic",
    jsxImportSource: "preact",
    charset: "utf8",
    legalComments: "none",
    banner: { js: `/* With ${SHIPPED.join(" and ")}, whose licence is MIT: docs/licences.md. */` },
  });
  const found = new Map([
    ["index.html", await readFile(join(HERE, "src/index.html"), "utf8")],
    ["licences.txt", await licences()],
  ]);
  for (const file of built.outputFiles) {
    found.set(file.path.endsWith(".css") ? "app.css" : "app.js", file.text);
  }
  return found;
}

/** The licence texts of the shipped packages. */
async function licences() {
  const texts = SHIPPED.map(async (name) => {
    const folder = join(HERE, "node_modules", name);
    const { version, license } = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    const text = await readFile(join(folder, "LICENSE"), "utf8");
    const lines = text.trim().split("\n").map((line) => line.trimEnd().replaceAll("\t", "    "));
    return `${name} ${version} (${license})\n\n${lines.join("\n")}\n`;
  });
  return (await Promise.all(texts)).join("\n");
}

export function compressed(text) {
  return gzipSync(text, { level: 9 });
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const folder = join(HERE, "dist");
  await mkdir(folder, { recursive: true });
  for (const [name, text] of await files()) {
    await writeFile(join(folder, name), text);
    if (SERVED.includes(name)) {
      await writeFile(join(folder, `${name}.gz`), compressed(text));
    }
  }
}
