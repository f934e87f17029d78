// Formatting and imports are biome's; here is what needs the types: promises that nobody awaits, values that cannot be.

import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import tseslint from "typescript-eslint";

export default tseslint.config(
  { ignores: ["src/gen", "dist", "build", "node_modules", "test/package", "*.js"] },
  ...tseslint.configs.strictTypeChecked,
  {
    languageOptions: {
      parserOptions: { projectService: true, tsconfigRootDir: dirname(fileURLToPath(import.meta.url)) },
    },
    rules: {
      // A number in a text is what it looks like, and so is a bigint.
      "@typescript-eslint/restrict-template-expressions": [
        "error",
        { allowNumber: true, allowBoolean: true },
      ],
      // An empty text means "not given" in the protocol.
      "@typescript-eslint/prefer-nullish-coalescing": "off",
      // `import x = require()` is how TypeScript writes CommonJS.
      "@typescript-eslint/no-require-imports": ["error", { allowAsImport: true }],
      // Node's test runner takes the promises of its tests itself.
      "@typescript-eslint/no-floating-promises": [
        "error",
        { allowForKnownSafeCalls: [{ from: "package", package: "node:test", name: ["test", "describe"] }] },
      ],
      // A name of a string that a newer server may have more of: `"a" | (string & {})`.
      "@typescript-eslint/no-empty-object-type": ["error", { allowObjectTypes: "always" }],
      "@typescript-eslint/no-redundant-type-constituents": "off",
      "@typescript-eslint/no-unused-vars": ["error", { varsIgnorePattern: "^_$", argsIgnorePattern: "^_" }],
    },
  },
  {
    // Fakes are async because what they stand for is; what is compared is printed, whatever it is.
    files: ["test/**"],
    rules: {
      "@typescript-eslint/require-await": "off",
      "@typescript-eslint/no-base-to-string": "off",
      "@typescript-eslint/no-confusing-void-expression": "off",
    },
  },
);
