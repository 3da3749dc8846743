// Server-sent events, read from a response: unlike `EventSource`, that tells why it was refused.

import type { Requests } from "./described";
import { stream } from "./request";

export interface ServerEvent {
  name: string;
  data: string;
}

/** An event that is longer than this is not the broker's. */
const BUFFER_MAX_CHARS = 4 * 1024 * 1024;

/** Gives each event to `onEvent` until the broker ends the stream. Throws `ApiError`, and what `signal` brings about. */
export async function readEvents(path: "/v1/tap", query: Requests["GET /v1/tap"]["query"], signal: AbortSignal, onOpen: () => void, onEvent: (event: ServerEvent) => void): Promise<void> {
  const response = await stream(path, query, signal);
  onOpen();
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  const parser = new EventParser(onEvent);
  while (reader !== undefined) {
    const { done, value } = await reader.read();
    if (done) {
      return;
    }
    parser.push(value);
  }
}

/** Takes text as it comes, and gives the events in it. */
export class EventParser {
  readonly #onEvent: (event: ServerEvent) => void;
  #rest = "";
  #name = "";
  #data: string[] = [];

  constructor(onEvent: (event: ServerEvent) => void) {
    this.#onEvent = onEvent;
  }

  push(text: string): void {
    const lines = (this.#rest + text).split("\n");
    this.#rest = lines.pop() ?? "";
    if (this.#rest.length > BUFFER_MAX_CHARS) {
      throw new Error("an event of the stream is too long");
    }
    for (const line of lines) {
      this.#take(line.endsWith("\r") ? line.slice(0, -1) : line);
    }
  }

  #take(line: string): void {
    if (line === "") {
      if (this.#data.length > 0) {
        this.#onEvent({ name: this.#name === "" ? "message" : this.#name, data: this.#data.join("\n") });
      }
      this.#name = "";
      this.#data = [];
      return;
    }
    const colon = line.indexOf(":");
    // A line that begins with a colon is a comment: the connection lives.
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") {
      this.#name = value;
    } else if (field === "data") {
      this.#data.push(value);
    }
  }
}
