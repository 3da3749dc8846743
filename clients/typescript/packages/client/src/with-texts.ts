/**
 * Gives the messages of errors their words, those of the codec too: `import "@tautwire/client/texts"`. The entry for Node.js does it by
 * itself. In browsers it is the program's choice, because the words take more room than they save while all goes well.
 *
 * @packageDocumentation
 */

import "@tautwire/mqtt-codec/texts";
import { setWords } from "./errors.js";
import { meant } from "./meant.js";
import { TEXTS } from "./texts.js";

setWords(TEXTS, meant);

export { TEXTS };
