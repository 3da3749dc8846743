import type { PayloadCodec } from "../codecs/codec.js";
import { MqttError } from "../errors.js";

type Name<Placeholder extends string> = Placeholder extends `${infer Short}...` ? Short : Placeholder;

/** The names of the parameters of a pattern. */
export type TopicParamNames<Pattern extends string> = Pattern extends `${string}{${infer Placeholder}}${infer Rest}`
  ? Name<Placeholder> | TopicParamNames<Rest>
  : never;

/** The parameters of a pattern in a received topic name: `"a/{id}/b"` has `{ id: string }`. */
export type TopicParams<Pattern extends string> = Readonly<Record<TopicParamNames<Pattern>, string>>;

/** The parameters from which a topic name is built. Numbers are written in decimal. */
export type TopicArguments<Pattern extends string> = Readonly<Record<TopicParamNames<Pattern>, string | number>>;

interface Level {
  /** The text of a fixed level, or the name of a parameter. */
  readonly text: string;
  readonly kind: "fixed" | "one" | "rest";
}

/** A pattern of topic names with parameters, and the codec of their payloads. Created by {@link topic}. */
export class Topic<Pattern extends string = string, T = unknown> {
  /** The topic filter of the pattern, with wildcards for the parameters. */
  readonly filter: string;
  private readonly levels: readonly Level[];

  constructor(
    readonly pattern: Pattern,
    readonly codec: PayloadCodec<T> | undefined,
  ) {
    this.levels = pattern.split("/").map(levelOf);
    const names = this.levels.filter(({ kind }) => kind !== "fixed").map(({ text }) => text);
    const restAt = this.levels.findIndex(({ kind }) => kind === "rest");
    if (new Set(names).size < names.length) fail(`${pattern}: duplicate parameter`);
    if (restAt >= 0 && restAt < this.levels.length - 1) fail(`${pattern}: a parameter with ... must be the last level`);
    if (pattern === "") fail("a topic needs at least one character");
    this.filter = this.filterFor({});
  }

  /**
   * Returns the topic name for these parameters.
   *
   * @throws {MqttError} `invalid_argument`: a parameter is missing, or contains `+`, `#`, U+0000 or a `/` that is not allowed.
   */
  name(params: TopicArguments<Pattern>): string {
    return this.join(params, () => undefined);
  }

  /** Returns the topic filter for these parameters, with wildcards for missing ones. */
  filterFor(params: Partial<TopicArguments<Pattern>>): string {
    return this.join(params, (kind) => (kind === "one" ? "+" : "#"));
  }

  private join(params: Partial<TopicArguments<Pattern>>, missing: (kind: Level["kind"]) => string | undefined): string {
    const given = params as Readonly<Record<string, string | number | undefined>>;
    return this.levels
      .map(({ text, kind }) => {
        if (kind === "fixed") return text;
        const value = Object.hasOwn(given, text) ? given[text] : undefined;
        if (value === undefined) return missing(kind) ?? fail(`${this.pattern}: the parameter ${text} is missing`);
        const level = String(value);
        if (/[+#\0]/.test(level)) fail(`${this.pattern}: ${text} contains +, # or U+0000`);
        if (kind === "one" && level.includes("/")) fail(`${this.pattern}: ${text} contains /`);
        return level;
      })
      .join("/");
  }

  /** Returns the parameters in a topic name, or null if it does not match the pattern. */
  match(name: string): TopicParams<Pattern> | null {
    const { levels } = this;
    const parts = name.split("/");
    const hasRest = levels[levels.length - 1]!.kind === "rest";
    if (hasRest ? parts.length < levels.length - 1 : parts.length !== levels.length) return null;
    const params: Record<string, string> = {};
    for (let at = 0; at < levels.length; at++) {
      const { text, kind } = levels[at]!;
      if (kind === "rest") params[text] = parts.slice(at).join("/");
      else if (kind === "one") params[text] = parts[at]!;
      else if (text !== parts[at]) return null;
    }
    return params as TopicParams<Pattern>;
  }
}

/**
 * Creates a typed topic: `{name}` matches one level, and `{name...}` at the end all remaining levels. The compiler and the run time
 * check the parameters. With a codec, the payload is typed, too.
 *
 * ```ts
 * const reading = topic("sensors/{id}/reading", json<{ celsius: number }>());
 * await client.publish(reading, { id: "7" }, { celsius: 21.5 });
 * for await (const { params, value } of client.subscribe(reading)) console.log(params.id, value.celsius);
 * ```
 *
 * @throws {MqttError} `invalid_argument`: the pattern is invalid.
 */
export function topic<const Pattern extends string>(pattern: Pattern): Topic<Pattern>;
export function topic<const Pattern extends string, T>(pattern: Pattern, codec: PayloadCodec<T>): Topic<Pattern, T>;
export function topic<const Pattern extends string, T>(pattern: Pattern, codec?: PayloadCodec<T>): Topic<Pattern, T> {
  return new Topic(pattern, codec);
}

function levelOf(text: string): Level {
  const name = /^\{([^{}]+?)(\.\.\.)?\}$/.exec(text);
  if (name !== null) return { text: name[1]!, kind: name[2] === undefined ? "one" : "rest" };
  if (/[{}+#\0]/.test(text)) fail(`${text}: a level must be a fixed text or one {parameter}, without wildcards`);
  return { text, kind: "fixed" };
}

function fail(message: string): never {
  throw new MqttError("invalid_argument", message);
}
