/** Formats the message of an error. `before` is the field, `after` the position; both may be empty. */
export type Message = (code: string, before: string, after: string) => string;

/**
 * Formats the message of an error: with the code only, unless `@tautwire/mqtt-codec/texts` is loaded. The texts would be a fifth of a
 * bundle for browsers; the entries for Node.js load them.
 */
export let message: Message = (code, before, after) => before + code + after;

/** Replaces the function that formats messages. */
export function setFormatter(other: Message): void {
  message = other;
}
