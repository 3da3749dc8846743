/**
 * Adds the texts to error messages: `import "@tautwire/mqtt-codec/texts"`. The entries for Node.js import it. In browsers you decide,
 * because the texts make a bundle larger.
 *
 * @packageDocumentation
 */

import { TEXTS } from "./error-texts.js";
import { setFormatter } from "./message.js";

setFormatter((code, before, after) => {
  const [text, statement] = TEXTS[code as keyof typeof TEXTS];
  return `${before}${text} [${code}]${after}${statement === undefined ? "" : ` (${statement})`}`;
});

export { TEXTS };
export type { Words } from "./error-texts.js";
