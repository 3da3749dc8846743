// Requests to the broker that serves this page, and to nobody else.

import type { QueryValue, Requests } from "./described";
import type { Session } from "./shapes";

/** An answer that has not come by then does not count. */
const REQUEST_TIMEOUT_MS = 15_000;

/** Why there is no answer, or the broker's refusal. */
export class ApiError extends Error {
  /** 0 where the broker has not answered. */
  readonly status: number;
  /** Never changes. */
  readonly code: string;
  /** All that is wrong, where that is more than one thing. */
  readonly all: readonly string[];

  constructor(status: number, code: string, message: string, all: readonly string[] = []) {
    super(message);
    this.status = status;
    this.code = code;
    this.all = all;
  }
}

/** A request that the broker has: its method and its path, with `{name}` for what `path` gives. */
export type RequestName = keyof Requests;
/** Paths that can be read. */
export type GetPath = RequestName extends infer Name ? (Name extends `GET ${infer Path}` ? Path : never) : never;

type PathOf<Name extends RequestName> = Requests[Name]["path"];
type QueryOf<Name extends RequestName> = Requests[Name]["query"];
type BodyOf<Name extends RequestName> = Requests[Name]["body"];
export type AnswerOf<Name extends RequestName> = Requests[Name]["answer"];

/** What a request needs; what it does not have cannot be given. */
export type Asked<Name extends RequestName> = { signal?: AbortSignal } & (PathOf<Name> extends undefined ? { path?: never } : { path: PathOf<Name> }) &
  (QueryOf<Name> extends undefined ? { query?: never } : Partial<QueryOf<Name>> extends QueryOf<Name> ? { query?: QueryOf<Name> } : { query: QueryOf<Name> }) &
  (BodyOf<Name> extends undefined ? { body?: never } : { body: BodyOf<Name> });

interface Parts {
  path?: Readonly<Record<string, string>> | undefined;
  query?: Readonly<Record<string, QueryValue>> | undefined;
  body?: unknown;
  signal?: AbortSignal;
}

let csrf: string | null = null;
let onLoggedOut: () => void = () => undefined;
let onReached: (reached: boolean) => void = () => undefined;

/** Who wants to know when the session has ended, and whether the broker answers. */
export function watchRequests(loggedOut: () => void, reached: (reached: boolean) => void): void {
  onLoggedOut = loggedOut;
  onReached = reached;
}

export function get<Path extends GetPath>(path: Path, asked: Asked<`GET ${Path}`>): Promise<AnswerOf<`GET ${Path}`>> {
  return request(`GET ${path}`, asked);
}

/** The session that the cookie names; `null` if there is none. */
export async function currentSession(): Promise<Session | null> {
  try {
    return remember(await request("GET /session", {}));
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) {
      return null;
    }
    throw error;
  }
}

export type Credentials = { token: string } | { user: string; password: string };

export async function logIn(credentials: Credentials): Promise<Session> {
  return remember(await request("POST /session", { body: credentials }));
}

export async function logOut(): Promise<void> {
  try {
    await request("DELETE /session", {});
  } catch (error) {
    // A session that the broker does not know any more is over as well.
    if (!(error instanceof ApiError && error.status === 401)) {
      throw error;
    }
  }
  csrf = null;
}

function remember(session: Session): Session {
  csrf = session.csrf;
  return session;
}

/** Sends a request and reads its JSON; `undefined` where there is none. Throws `ApiError`. */
export async function request<Name extends RequestName>(name: Name, asked: Asked<Name>): Promise<AnswerOf<Name>> {
  const deadline = new Deadline(asked.signal);
  try {
    const response = await send(name, asked, deadline.signal);
    if (response.status === 204) {
      return undefined;
    }
    const type = response.headers.get("Content-Type") ?? "";
    return (type.startsWith("application/json") ? await response.json() : await response.text()) as AnswerOf<Name>;
  } catch (error) {
    if (error instanceof ApiError || asked.signal?.aborted === true) {
      throw error;
    }
    throw unreachable();
  } finally {
    deadline.stop();
  }
}

/** The answer whose body goes on until `signal` ends it: the deadline is for its head alone. Throws `ApiError`. */
export async function stream<Path extends GetPath>(path: Path, query: QueryOf<`GET ${Path}`>, signal: AbortSignal): Promise<Response> {
  const deadline = new Deadline(signal);
  try {
    return await send(`GET ${path}`, { query }, deadline.signal);
  } catch (error) {
    if (error instanceof ApiError || signal.aborted) {
      throw error;
    }
    throw unreachable();
  } finally {
    deadline.stop();
  }
}

async function send(name: RequestName, { path = {}, query, body }: Parts, signal: AbortSignal): Promise<Response> {
  const [method = "", template = ""] = name.split(" ");
  const address = template.replaceAll(/\{(\w+)\}/g, (_whole, part: string) => encodeURIComponent(path[part] ?? ""));
  const headers = new Headers({ Accept: "application/json, text/event-stream" });
  if (method !== "GET" && csrf !== null) {
    headers.set("X-CSRF-Token", csrf);
  }
  if (body !== undefined) {
    headers.set("Content-Type", "application/json");
  }
  const response = await fetch(address + queryText(query), {
    method,
    headers,
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    credentials: "same-origin",
    cache: "no-store",
    redirect: "error",
    signal,
  });
  onReached(true);
  if (response.ok) {
    return response;
  }
  const error = await refusal(response);
  if (error.status === 401 && template !== "/session") {
    onLoggedOut();
  }
  throw error;
}

function unreachable(): ApiError {
  onReached(false);
  return new ApiError(0, "unreachable", "The broker does not answer, or its answer cannot be read.");
}

/** Ends a request when its time is over or its caller wants it no more. */
class Deadline {
  readonly #controller = new AbortController();
  readonly #timer: number;

  constructor(caller: AbortSignal | undefined) {
    this.#timer = window.setTimeout(() => this.#controller.abort(), REQUEST_TIMEOUT_MS);
    caller?.addEventListener("abort", () => this.#controller.abort(), { once: true });
    if (caller?.aborted === true) {
      this.#controller.abort();
    }
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** The time counts no more. */
  stop(): void {
    window.clearTimeout(this.#timer);
  }
}

interface ErrorBody {
  code?: unknown;
  message?: unknown;
  errors?: unknown;
}

async function refusal(response: Response): Promise<ApiError> {
  let body: ErrorBody = {};
  try {
    body = (await response.json()) as ErrorBody;
  } catch {
    // Not the broker's words: a proxy's, perhaps.
  }
  const code = typeof body.code === "string" ? body.code : `http_${response.status}`;
  const message = typeof body.message === "string" ? body.message : `The answer was ${response.status} ${response.statusText}.`;
  const errors = Array.isArray(body.errors) ? (body.errors as unknown[]) : [];
  return new ApiError(response.status, code, message, errors.map(wording));
}

function wording(error: unknown): string {
  if (typeof error === "string") {
    return error;
  }
  const { message } = (error ?? {}) as ErrorBody;
  return typeof message === "string" ? message : JSON.stringify(error);
}

function queryText(query: Readonly<Record<string, QueryValue>> = {}): string {
  const set = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null) {
      set.set(name, String(value));
    }
  }
  const text = set.toString();
  return text === "" ? "" : `?${text}`;
}
