/** Makes the message of an error. `before` is the field, `behind` the place, as they stand in it; both may be empty. */
export type Describe = (code: string, before: string, behind: string) => string;

let describe: Describe = (code, before, behind) => `${before}[${code}]${behind}`;

/**
 * The message of an error: with its code alone, until `@tautwire/mqtt-codec/texts` brings the texts. They would be a fifth of a
 * bundle for browsers; the entries for Node.js load them.
 */
export function message(code: string, before: string, behind: string): string {
  return describe(code, before, behind);
}

/** From now on `other` makes the messages. */
export function describeBy(other: Describe): void {
  describe = other;
}
