/**
 * What {@link "client"} exports, with the texts of errors.
 *
 * @packageDocumentation
 */

import "./texts.js";

export * from "./client.js";
