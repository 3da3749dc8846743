/** Makes the message of an error. `before` is the field, `behind` the place, as they stand in it; both may be empty. */
export type Message = (code: string, before: string, behind: string) => string;

/**
 * The message of an error: with its code alone, until `@tautwire/mqtt-codec/texts` brings the texts. They would be a fifth of a
 * bundle for browsers; the entries for Node.js load them.
 */
export let message: Message = (code, before, behind) => before + code + behind;

/** From now on `other` makes the messages. */
export function makeMessagesBy(other: Message): void {
  message = other;
}
