import js from "@eslint/js";
import tseslint from "typescript-eslint";

const NODE = ["process", "console", "Buffer", "URL", "URLSearchParams", "setTimeout", "clearTimeout", "setInterval", "clearInterval", "fetch", "AbortSignal", "AbortController", "structuredClone", "TextDecoderStream"];
/** Functions that the tests pass to the page run there. */
const PAGE = ["document", "window", "location", "getComputedStyle"];

export default tseslint.config(
  { ignores: ["dist/", "node_modules/"] },
  js.configs.recommended,
  {
    files: ["src/**/*.ts", "src/**/*.tsx"],
    extends: [tseslint.configs.strictTypeChecked, tseslint.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      // A handler that sets one state is an arrow without braces.
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
    },
  },
  {
    files: ["**/*.mjs", "**/*.js"],
    languageOptions: { globals: Object.fromEntries([...NODE, ...PAGE].map((name) => [name, "readonly"])) },
  },
);
