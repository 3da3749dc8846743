// Sessions of the admin API: a cookie that scripts cannot read, and a CSRF token.

import { randomUUID } from "node:crypto";
import { body, like } from "./recorded.mjs";
import { refuse } from "./refusal.mjs";

export const TOKENS = {
  "the-administrators-token": { name: "admin", role: "administer", payloads: true },
  "the-readers-token": { name: "wallboard", role: "read", payloads: false },
};
export const PASSWORDS = { ann: { password: "ann's secret", name: "ann", role: "operate", payloads: false } };

const RANKS = ["read", "operate", "administer"];

export class Sessions {
  #open = new Map();
  #tokens;

  constructor(tokens = TOKENS) {
    this.#tokens = tokens;
  }

  /** Ends all of them, as their timeout does. */
  endAll() {
    this.#open.clear();
  }

  of(request) {
    const id = /(?:^|;\s*)tautwire_session=([^;]+)/.exec(request.headers.cookie ?? "")?.[1];
    return this.#open.get(id);
  }

  /** Handles `/session`. */
  answer(request, body) {
    const session = this.of(request);
    switch (request.method) {
      case "GET":
        return session === undefined ? unauthorized() : { status: 200, body: session };
      case "POST":
        return this.#logIn(body);
      default:
        if (session === undefined) return unauthorized();
        if (request.headers["x-csrf-token"] !== session.csrf) return forged();
        for (const [id, known] of this.#open) if (known === session) this.#open.delete(id);
        return { status: 204, headers: { "Set-Cookie": "tautwire_session=; Max-Age=0; Path=/" } };
    }
  }

  #logIn({ token, user, password }) {
    const known = token === undefined ? PASSWORDS[user] : this.#tokens[token];
    if (known === undefined || (token === undefined && known.password !== password)) {
      return refuse(401, "unauthorized", "the token, or the user and the password, are not right");
    }
    const id = randomUUID();
    const session = like(body("POST /session"), { name: known.name, role: known.role, payloads: known.payloads, expires_ms: Date.now() + 43_200_000, csrf: randomUUID() });
    this.#open.set(id, session);
    return { status: 200, body: session, headers: { "Set-Cookie": `tautwire_session=${id}; HttpOnly; SameSite=Strict; Path=/` } };
  }

  /** Why a request is refused, if it is. */
  refusal(request, role = "read", needsPayloads = false) {
    const session = this.of(request);
    if (session === undefined) return unauthorized();
    if (request.method !== "GET" && request.headers["x-csrf-token"] !== session.csrf) return forged();
    if (RANKS.indexOf(session.role) < RANKS.indexOf(role)) return refuse(403, "forbidden", `this needs the role ${role}`);
    if (needsPayloads && !session.payloads) return refuse(403, "forbidden", "this needs the permission payloads");
    return undefined;
  }
}

function unauthorized() {
  return refuse(401, "unauthorized", "log in, or send the token: Authorization: Bearer TOKEN");
}

function forged() {
  return refuse(403, "csrf", "the header X-CSRF-Token is missing or wrong");
}
