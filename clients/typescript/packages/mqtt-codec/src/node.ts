/**
 * What {@link "index"} exports, with the texts of errors.
 *
 * @packageDocumentation
 */

import "./texts.js";

export * from "./index.js";
