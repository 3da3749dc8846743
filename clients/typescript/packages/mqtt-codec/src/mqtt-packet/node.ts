/**
 * The exports of {@link "mqtt-packet/index"}, with the texts of errors.
 *
 * @packageDocumentation
 */

import "../texts.js";

export * from "./index.js";
export { default } from "./index.js";
