// Runs the recipes of packages/mqtt-packet/README.md as shown there, each in an empty project with the packages as packed by npm.
// Everything else comes from the configured registry. Needs the build.

import assert from "node:assert/strict";
import { execFile, execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { promisify } from "node:util";
import { fileURLToPath } from "node:url";
import { serveRegistry } from "./registry.mjs";

const DEADLINE = { timeout: 480_000 };
const TOOLS = {
  pnpm: "10",
  yarn: "1.22.22",
  "@yarnpkg/cli-dist": "4",
  esbuild: "0.28.2",
  vite: "7",
  webpack: "5",
  "webpack-cli": "6",
};
const DEPENDENCIES = { aedes: "1.2.0", mqtt: "5.16.0" };
const OLDEST_TYPESCRIPT = "5.0.4";

const here = (name) => fileURLToPath(new URL(name, import.meta.url));
const readme = readFileSync(here("../packages/mqtt-packet/README.md"), "utf8");
const folder = mkdtempSync(join(tmpdir(), "tautwire-recipes-"));
const packages = join(folder, "packages");
let registry;

before(async () => {
  mkdirSync(packages);
  registry = await serveRegistry(packages);
});
after(async () => {
  await registry.close();
  rmSync(folder, { recursive: true, force: true });
});

/** Returns the first code block of a language under a heading. `after`: a word that precedes it. */
function recipe(heading, language, after = "") {
  const section = readme.split(/^#{2,3} /m).find((text) => text.startsWith(`${heading}\n`));
  assert.ok(section, heading);
  const block = new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, "s").exec(section.slice(section.indexOf(after)))?.[1];
  assert.ok(block, `${heading}: ${language}`);
  return block;
}

/** Runs a command without the environment that `npm test` sets for this package. */
async function run(cwd, command, ...options) {
  const isOfNpm = (name) => /^(npm_(?!config_registry)|INIT_CWD|NODE_TEST_CONTEXT)/i.test(name);
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !isOfNpm(name)));
  Object.assign(env, { YARN_ENABLE_TELEMETRY: "0", YARN_ENABLE_IMMUTABLE_INSTALLS: "0", YARN_GLOBAL_FOLDER: join(folder, "yarn"), CI: "" });
  try {
    const { stdout } = await promisify(execFile)(command, options, { cwd, env, maxBuffer: 1 << 26 });
    return stdout;
  } catch (error) {
    throw new Error(`${command} ${options.join(" ")}\n${error.stdout}\n${error.stderr}`, { cause: error });
  }
}

/** Creates an empty project. Packages of this workspace come from a local registry, all others from the usual one. */
function project(name, manifest = {}) {
  const cwd = join(folder, name);
  mkdirSync(cwd);
  writeFileSync(join(cwd, "package.json"), JSON.stringify({ name, private: true, dependencies: DEPENDENCIES, ...manifest }, null, 2));
  writeFileSync(join(cwd, ".npmrc"), `@tautwire:registry=${registry.url}/\naudit=false\nfund=false\n`);
  copyFileSync(here("probe.mjs"), join(cwd, "probe.mjs"));
  return cwd;
}

let tools;

/** The path of a program that npm has installed. */
async function tool(name, bin = name) {
  tools ??= (async () => {
    const cwd = join(folder, "tools");
    mkdirSync(cwd);
    writeFileSync(join(cwd, "package.json"), JSON.stringify({ private: true, dependencies: TOOLS }));
    await run(cwd, "npm", "install", "--no-audit", "--no-fund");
    return cwd;
  })();
  const manifest = JSON.parse(readFileSync(join(await tools, "node_modules", name, "package.json"), "utf8"));
  const path = typeof manifest.bin === "string" ? manifest.bin : manifest.bin[bin];
  return join(await tools, "node_modules", name, path);
}

function checkProbe(output, names = ["@tautwire/mqtt-packet", "@tautwire/mqtt-packet"]) {
  assert.deepEqual(JSON.parse(output.trim().split("\n").at(-1)), { names, said: "probe hello" });
}

const CHECK = () => /node -p "(.*)"/.exec(recipe("Verify the installation", "sh"))[1];

test("npm", DEADLINE, async () => {
  const cwd = project("npm", JSON.parse(recipe("npm", "json")));
  await run(cwd, "npm", "install");
  checkProbe(await run(cwd, process.execPath, "probe.mjs"));
  assert.equal(await run(cwd, process.execPath, "-p", CHECK()), "@tautwire/mqtt-packet\n");
  const installed = (name) => readFileSync(join(cwd, "node_modules", name), "utf8");
  for (const name of ["mqtt-packet", "@tautwire/mqtt-codec"]) {
    assert.match(installed(`${name}/LICENSE-MIT`), /MIT/);
    assert.match(installed(`${name}/LICENSE-APACHE`), /Apache/);
  }
  for (const form of ["esm", "cjs"]) {
    const { sources, sourcesContent } = JSON.parse(installed(`@tautwire/mqtt-codec/dist/${form}/index.js.map`));
    assert.deepEqual([sources.length, typeof sourcesContent[0]], [1, "string"]);
  }
});

test("npm, in a project that has been installed before", DEADLINE, async () => {
  const cwd = project("npm-before");
  await run(cwd, "npm", "install");
  checkProbe(await run(cwd, process.execPath, "probe.mjs"), ["mqtt-packet", "mqtt-packet"]);
  const manifest = JSON.parse(readFileSync(join(cwd, "package.json"), "utf8"));
  writeFileSync(join(cwd, "package.json"), JSON.stringify({ ...manifest, ...JSON.parse(recipe("npm", "json")) }));
  await run(cwd, "npm", "update", "mqtt-packet");
  checkProbe(await run(cwd, process.execPath, "probe.mjs"));
});

test("npm, under its own name in a program's own code", DEADLINE, async () => {
  const cwd = project("npm-alias", { dependencies: {} });
  const [command, ...options] = recipe("Your own code", "sh").trim().split(" ");
  await run(cwd, command, ...options);
  const script = `import mqtt, { parser } from "mqtt-packet";
    parser().on("packet", ({ cmd }) => console.log(cmd)).parse(mqtt.generate({ cmd: "pingreq" }));`;
  assert.equal(await run(cwd, process.execPath, "--input-type=module", "-e", script), "pingreq\n");
  const commonJs = `const mqtt = require("mqtt-packet");
    mqtt.parser().on("packet", ({ cmd }) => console.log(cmd)).parse(mqtt.generate({ cmd: "pingreq" }));`;
  assert.equal(await run(cwd, process.execPath, "-e", commonJs), "pingreq\n");
});

test("pnpm", DEADLINE, async () => {
  const cwd = project("pnpm");
  writeFileSync(join(cwd, "pnpm-workspace.yaml"), recipe("pnpm", "yaml"));
  await run(cwd, process.execPath, await tool("pnpm"), "install", "--store-dir", join(folder, "pnpm-store"));
  checkProbe(await run(cwd, process.execPath, "probe.mjs"));
});

test("Yarn 1", DEADLINE, async () => {
  const cwd = project("yarn-1", JSON.parse(recipe("Yarn", "json")));
  await run(cwd, process.execPath, await tool("yarn"), "install", "--cache-folder", join(folder, "yarn-1-cache"));
  checkProbe(await run(cwd, process.execPath, "probe.mjs"));
});

test("Yarn 4 with Plug'n'Play", DEADLINE, async () => {
  const cwd = project("yarn-4", JSON.parse(recipe("Yarn", "json")));
  const others = execFileSync("npm", ["config", "get", "registry"], { encoding: "utf8" }).trim();
  writeFileSync(join(cwd, ".yarnrc.yml"), `npmRegistryServer: ${others}
unsafeHttpWhitelist: ["*"]
npmScopes: { tautwire: { npmRegistryServer: "${registry.url}" } }
`);
  writeFileSync(join(cwd, "yarn.lock"), "");
  const yarn = await tool("@yarnpkg/cli-dist", "yarn");
  await run(cwd, process.execPath, yarn, "install");
  checkProbe(await run(cwd, process.execPath, yarn, "node", "probe.mjs"));
});

/** Creates a project with MQTT.js and this package, which only an alias connects. */
async function bundled(name) {
  const cwd = project(name, { dependencies: { mqtt: DEPENDENCIES.mqtt, "@tautwire/mqtt-packet": "^0.1.0" } });
  await run(cwd, "npm", "install");
  const source = `import mqtt from "mqtt"; console.log(typeof mqtt.connect); process.exit();`;
  writeFileSync(join(cwd, "app.js"), source);
  return cwd;
}

/** Error texts that only one of the two packages contains. */
async function checkBundle(cwd, file) {
  const bundle = readFileSync(join(cwd, file), "utf8");
  assert.ok(!bundle.includes("Cannot parse protocolId"), "mqtt-packet is in the bundle");
  assert.ok(bundle.includes("connack_flags_reserved"), "this package is not in the bundle");
  assert.equal(await run(cwd, process.execPath, file), "function\n");
}

test("esbuild", DEADLINE, async () => {
  const cwd = await bundled("esbuild");
  const [, ...options] = recipe("Bundlers", "sh").trim().split(" ");
  await run(cwd, await tool("esbuild"), ...options);
  await checkBundle(cwd, "bundle.cjs");
});

test("Vite", DEADLINE, async () => {
  const cwd = await bundled("vite");
  writeFileSync(join(cwd, "vite.config.mjs"), recipe("Bundlers", "js", "Vite:"));
  // Vite externalizes modules for Node.js unless configured otherwise.
  const config = `import recipe from "./vite.config.mjs"; export default { ...recipe, ssr: { noExternal: true } };`;
  writeFileSync(join(cwd, "for-node.mjs"), config);
  await run(cwd, process.execPath, await tool("vite"), "build", "--ssr", "app.js", "--config", "for-node.mjs");
  await checkBundle(cwd, "dist/app.mjs");
});

test("webpack", DEADLINE, async () => {
  const cwd = await bundled("webpack");
  writeFileSync(join(cwd, "webpack.config.mjs"), recipe("Bundlers", "js", "webpack:"));
  const options = ["--entry", "./app.js", "--target", "node", "--mode", "production", "--output-filename", "bundle.cjs"];
  await run(cwd, process.execPath, await tool("webpack-cli"), "build", ...options);
  await checkBundle(cwd, "dist/bundle.cjs");
});

test(`types, with TypeScript ${OLDEST_TYPESCRIPT}`, DEADLINE, async () => {
  const cwd = project("types", {
    dependencies: {
      "@tautwire/mqtt-packet": "^0.1.0",
      "@tautwire/mqtt-codec": "^0.1.0",
      "@types/node": "18.15.0",
      "mqtt-packet": "npm:@tautwire/mqtt-packet@^0.1.0",
      typescript: OLDEST_TYPESCRIPT,
    },
  });
  await run(cwd, "npm", "install");
  copyFileSync(here("types.ts"), join(cwd, "types.ts"));
  for (const [module, resolution] of [["node16", "node16"], ["commonjs", "node10"], ["esnext", "bundler"]]) {
    const compilerOptions = { strict: true, noEmit: true, target: "es2022", module, moduleResolution: resolution, types: ["node"] };
    writeFileSync(join(cwd, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["types.ts"] }));
    await run(cwd, process.execPath, join(cwd, "node_modules/typescript/bin/tsc"), "-p", ".");
  }
});

test("types, as MQTT.js and Aedes use them", DEADLINE, async () => {
  const manifest = JSON.parse(recipe("npm", "json"));
  const dependencies = { ...DEPENDENCIES, "@types/node": "20.19.43", typescript: "5.9.3" };
  const cwd = project("types-of-users", { ...manifest, type: "module", dependencies });
  await run(cwd, "npm", "install");
  copyFileSync(here("types-of-users.ts"), join(cwd, "types.ts"));
  const compilerOptions = { strict: true, noEmit: true, target: "es2022", module: "node16", skipLibCheck: true, types: ["node"] };
  writeFileSync(join(cwd, "tsconfig.json"), JSON.stringify({ compilerOptions, files: ["types.ts"] }));
  await run(cwd, process.execPath, join(cwd, "node_modules/typescript/bin/tsc"), "-p", ".");
});
