/**
 * Gives the messages of errors their texts: `import "@tautwire/mqtt-codec/texts"`. In Node.js they are always there. In browsers it is
 * your choice, because a bundle grows by them.
 *
 * @packageDocumentation
 */

import { TEXTS } from "./error-texts.js";
import { makeMessagesBy } from "./message.js";

makeMessagesBy((code, before, behind) => {
  const [text, statement] = TEXTS[code as keyof typeof TEXTS];
  return `${before}${text} [${code}]${behind}${statement === undefined ? "" : ` (${statement})`}`;
});

export { TEXTS };
export type { Words } from "./error-texts.js";
