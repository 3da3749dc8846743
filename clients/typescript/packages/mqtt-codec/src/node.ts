/**
 * The exports of {@link "index"}, with the texts of errors.
 *
 * @packageDocumentation
 */

import "./texts.js";

export * from "./index.js";
