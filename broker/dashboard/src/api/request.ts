// Requests to the broker that serves this page.

import type { QueryValue, Requests } from "./described";
import type { Session } from "./shapes";

/** The timeout of a request. */
const REQUEST_TIMEOUT_MS = 15_000;

/** The broker's error response, or why there is no response. */
export class ApiError extends Error {
  /** 0 if the broker has not responded. */
  readonly status: number;
  /** A stable code. */
  readonly code: string;
  /** All errors, if there are several. */
  readonly all: readonly string[];

  constructor(status: number, code: string, message: string, all: readonly string[] = []) {
    super(message);
    this.status = status;
    this.code = code;
    this.all = all;
  }
}

/** A request of the API: its method and its path, with `{name}` for the values in `path`. */
export type RequestName = keyof Requests;
/** Paths that can be read with GET. */
export type GetPath = RequestName extends infer Name ? (Name extends `GET ${infer Path}` ? Path : never) : never;

type PathOf<Name extends RequestName> = Requests[Name]["path"];
type QueryOf<Name extends RequestName> = Requests[Name]["query"];
type BodyOf<Name extends RequestName> = Requests[Name]["body"];
export type ResponseOf<Name extends RequestName> = Requests[Name]["answer"];

/** The parameters of a request; others are rejected by the compiler. */
export type RequestOptions<Name extends RequestName> = { signal?: AbortSignal } & (PathOf<Name> extends undefined ? { path?: never } : { path: PathOf<Name> }) &
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

/** Registers callbacks for the end of the session, and for whether the broker responds. */
export function watchRequests(loggedOut: () => void, reached: (reached: boolean) => void): void {
  onLoggedOut = loggedOut;
  onReached = reached;
}

export function get<Path extends GetPath>(path: Path, options: RequestOptions<`GET ${Path}`>): Promise<ResponseOf<`GET ${Path}`>> {
  return request(`GET ${path}`, options);
}

/** The session of the cookie; `null` if there is none. */
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
    // An unknown session is over as well.
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

/** Sends a request and returns its JSON; `undefined` if there is none. Throws `ApiError`. */
export async function request<Name extends RequestName>(name: Name, options: RequestOptions<Name>): Promise<ResponseOf<Name>> {
  const deadline = new Deadline(options.signal);
  try {
    const response = await send(name, options, deadline.signal);
    if (response.status === 204) {
      return undefined;
    }
    const type = response.headers.get("Content-Type") ?? "";
    return (type.startsWith("application/json") ? await response.json() : await response.text()) as ResponseOf<Name>;
  } catch (error) {
    if (error instanceof ApiError || options.signal?.aborted === true) {
      throw error;
    }
    throw unreachable();
  } finally {
    deadline.stop();
  }
}

/** A response whose body continues until `signal` ends it: the timeout applies only to its head. Throws `ApiError`. */
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
  return new ApiError(0, "unreachable", "The broker does not answer, or its answer is not valid.");
}

/** Aborts a request at its timeout, or when its caller aborts it. */
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

  /** Disables the timeout. */
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
    // The response is not from the broker, perhaps from a proxy.
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
