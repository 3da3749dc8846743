import js from "@eslint/js";
import tseslint from "typescript-eslint";

export default tseslint.config(
  // These belong to no project: a recipe compiles them.
  { ignores: ["**/dist/", "**/node_modules/", "recipes/*.ts", "packages/mqtt-packet/*.d.ts"] },
  js.configs.recommended,
  {
    files: ["**/*.ts"],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      // Templates may contain numbers.
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true, allowBoolean: true }],
      // `node:test` returns promises that the runner itself awaits.
      "@typescript-eslint/no-floating-promises": [
        "error",
        { allowForKnownSafeCalls: [{ from: "package", package: "node:test", name: ["test", "it", "describe", "suite"] }] },
      ],
      // Indices are validated where they are computed; an assertion costs nothing at run time.

      "@typescript-eslint/no-non-null-assertion": "off",
      // Both plain loops over indices and loops over items are used, for speed and for clarity.
      "@typescript-eslint/prefer-for-of": "off",
    },
  },
  {
    files: ["**/*.js", "**/*.mjs", "**/*.cjs"],
    languageOptions: {
      globals: {
        process: "readonly",
        console: "readonly",
        Buffer: "readonly",
        URL: "readonly",
        performance: "readonly",
        clearTimeout: "readonly",
        setTimeout: "readonly",
        setImmediate: "readonly",
        TextEncoder: "readonly",
        TextDecoder: "readonly",
      },
    },
  },
);
