// Server-sent events from a response: unlike `EventSource`, this reports why the request was refused.

import type { Requests } from "./described";
import { stream } from "./request";

export interface ServerEvent {
  name: string;
  data: string;
}

/** A longer event is an error. */
const BUFFER_MAX_CHARS = 4 * 1024 * 1024;

/** Calls `onEvent` for each event until the broker ends the stream. Throws `ApiError`, and errors from `signal`. */
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

/** Parses text incrementally, and returns the events in it. */
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
    // A line that begins with a colon is a comment: a keep-alive.
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "event") {
      this.#name = value;
    } else if (field === "data") {
      this.#data.push(value);
    }
  }
}
