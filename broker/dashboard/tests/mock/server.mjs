// A server like the broker's admin listener, with mock data or in front of a real broker without sessions.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { once } from "node:events";
import { ROUTES, makeState } from "./answers.mjs";
import { faultsOf } from "../support/description.mjs";
import { Sessions, TOKENS } from "./sessions.mjs";

const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'";
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8" };

export class MockServer {
  state = makeState();
  /** Responses that no broker returns. */
  faults = [];
  /** All requests of the API: method and path with query. */
  asked = [];
  #sessions;
  #server;
  #upstream;

  /** With `upstream`, an object of `url` and `token`, requests of the API are forwarded to it. */
  static async start({ upstream } = {}) {
    const mock = new MockServer();
    mock.#upstream = upstream;
    mock.#sessions = new Sessions(upstream === undefined ? TOKENS : { [upstream.token]: TOKENS["the-administrators-token"] });
    await mock.listen(0);
    return mock;
  }

  async listen(port) {
    this.#server = createServer((request, response) => {
      this.#answer(request, response).catch((error) => response.destroy(error));
    });
    this.#server.listen(port, "127.0.0.1");
    await once(this.#server, "listening");
    this.port = this.#server.address().port;
    this.url = `http://127.0.0.1:${this.port}/`;
  }

  endSessions() {
    this.#sessions.endAll();
  }

  /** Returns `answer` for the next request of the API with this path prefix. */
  answerOnce(path, answer) {
    this.#instead = { path, answer };
  }
  #instead;

  async stop() {
    const closed = once(this.#server, "close");
    this.#server.close();
    this.#server.closeAllConnections();
    await closed;
  }

  async #answer(request, response) {
    const url = new URL(request.url, "http://mock");
    if (request.method === "GET" && (url.pathname === "/" || url.pathname.startsWith("/ui/"))) {
      return file(url.pathname === "/" ? "index.html" : url.pathname.slice(4), response);
    }
    this.asked.push(`${request.method} ${request.url}`);
    const text = await bodyOf(request);
    const answer = await this.#api(request, response, url, text);
    if (answer === undefined) return;
    if (this.#upstream === undefined) this.faults.push(...faultsOf(request.method, url.pathname, answer.status, answer.body));
    send(response, answer);
  }

  #api(request, response, url, text) {
    const body = text === "" ? {} : JSON.parse(text);
    if (this.#instead !== undefined && url.pathname.startsWith(this.#instead.path)) {
      const { answer } = this.#instead;
      this.#instead = undefined;
      return answer;
    }
    if (url.pathname === "/session") return this.#sessions.answer(request, body);
    if (this.#upstream !== undefined) {
      return this.#sessions.refusal(request) ?? forward(this.#upstream, request, text, response);
    }
    const found = ROUTES.map(([method, pattern, answer, role, payloads]) => ({ method, match: pattern.exec(url.pathname), answer, role, payloads }))
      .filter(({ match }) => match !== null)
      .find(({ method }) => method === request.method);
    if (found === undefined) return { status: 404, body: { code: "not_found", message: "no such path" } };
    const refusal = this.#sessions.refusal(request, found.role, found.payloads);
    if (refusal !== undefined) return refusal;
    const answered = found.answer(this.state, found.match, { query: url.searchParams, body, response });
    if (answered === null) return { status: 204 };
    return answered === undefined || (typeof answered.status === "number" && "body" in answered) ? answered : { status: 200, body: answered };
  }
}

/** Older brokers do not have the version in most paths. */
async function forward({ url, token }, request, text, response) {
  const path = /^\/v1\/(clients|listeners)\b/.test(request.url) ? request.url : request.url.replace(/^\/v1\//, "/");
  const ended = new AbortController();
  response.once("close", () => ended.abort());
  const asked = { method: request.method, headers: { Authorization: `Bearer ${token}` }, signal: ended.signal };
  const answer = await fetch(url + path, text === "" ? asked : { ...asked, body: text });
  const headers = { "Content-Type": answer.headers.get("Content-Type") ?? "text/plain" };
  if (headers["Content-Type"] !== "text/event-stream") {
    return { status: answer.status, text: await answer.text(), headers };
  }
  response.writeHead(answer.status, { ...headers, Connection: "close" });
  try {
    for await (const chunk of answer.body) response.write(chunk);
  } catch (error) {
    // The client has disconnected, which ends the stream.
    if (!ended.signal.aborted) throw error;
  }
  response.end();
  return undefined;
}

function send(response, { status, body, text, headers = {} }) {
  const bytes = text ?? (body === undefined ? "" : JSON.stringify(body));
  response.writeHead(status, { "Content-Type": "application/json", "Cache-Control": "no-store", Connection: "close", ...headers });
  response.end(status === 204 ? undefined : bytes);
}

async function file(name, response) {
  if (!/^\w+\.(html|js|css)$/.test(name)) return send(response, { status: 404, body: {} });
  const bytes = await readFile(new URL(`../../dist/${name}.gz`, import.meta.url));
  response.writeHead(200, {
    "Content-Type": TYPES[name.split(".")[1]],
    "Content-Encoding": "gzip",
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    Connection: "close",
  });
  response.end(bytes);
}

async function bodyOf(request) {
  let text = "";
  for await (const chunk of request.setEncoding("utf8")) text += chunk;
  return text;
}
