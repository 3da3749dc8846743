// The current page: the part of the address after `#`, as in `#/clients/meter-7?topic=a%2Fb`.

import { useEffect, useState } from "preact/hooks";

export interface Route {
  /** Path segments, decoded. */
  path: readonly string[];
  query: Readonly<Record<string, string>>;
}

export function parseHash(hash: string): Route {
  const [path = "", query = ""] = splitOnce(hash.replace(/^#\/?/, ""), "?");
  return {
    path: path.split("/").filter((part) => part !== "").map(decode),
    query: Object.fromEntries(new URLSearchParams(query)),
  };
}

/** The address of a page of this dashboard. `null` and empty values are omitted from the query. */
export function href(path: readonly string[], query: Record<string, string | number | null | undefined> = {}): string {
  const set = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== null && value !== undefined && value !== "") {
      set.set(name, String(value));
    }
  }
  const text = set.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text === "" ? "" : `?${text}`}`;
}

export function clientHref(clientId: string, mountPoint: string | null): string {
  return href(["clients", clientId], { mount_point: mountPoint });
}

export function go(to: string): void {
  location.hash = to;
}

/** Changes the address without a history entry, as for each letter of a search. */
export function replace(to: string): void {
  history.replaceState(null, "", to);
  window.dispatchEvent(new HashChangeEvent("hashchange"));
}

export function useRoute(): Route {
  const [route, setRoute] = useState(() => parseHash(location.hash));
  useEffect(() => {
    const onChange = (): void => setRoute(parseHash(location.hash));
    window.addEventListener("hashchange", onChange);
    return () => window.removeEventListener("hashchange", onChange);
  }, []);
  return route;
}

function splitOnce(text: string, at: string): string[] {
  const index = text.indexOf(at);
  return index < 0 ? [text] : [text.slice(0, index), text.slice(index + 1)];
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
