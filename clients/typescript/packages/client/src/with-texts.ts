/**
 * Adds the texts of error messages, also those of the codec: `import "@tautwire/client/texts"`. The entry for Node.js imports it.
 * In browsers the program decides, because the texts make a bundle larger.
 *
 * @packageDocumentation
 */

import "@tautwire/mqtt-codec/texts";
import { setTexts } from "./errors.js";
import { suggest } from "./suggest.js";
import { TEXTS } from "./texts.js";

setTexts(TEXTS, suggest);

export { TEXTS };
