/**
 * The exports of {@link "client"}, with the texts of errors.
 *
 * @packageDocumentation
 */

import "./texts.js";

export * from "./client.js";
