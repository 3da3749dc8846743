// What every page has: a heading that takes the focus when the page opens, and its states of failure and emptiness.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import type { ApiError } from "../api/request";
import { clock, words } from "../format";
import type { Loaded } from "../load";

export function Page({ title, actions, children }: { title: string; actions?: ComponentChildren; children: ComponentChildren }): JSX.Element {
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = `${title} – Tautwire`;
  }, [title]);
  // Before anybody can write into what the page has: later, it would take the focus from there.
  useLayoutEffect(() => heading.current?.focus(), []);
  return (
    <>
      <header class="page-head">
        <h1 ref={heading} tabIndex={-1}>
          {title}
        </h1>
        {actions !== undefined && <div class="actions">{actions}</div>}
      </header>
      {children}
    </>
  );
}

/** Asks again, and says how old what is shown is. */
export function Refresh({ loaded }: { loaded: Loaded<unknown> }): JSX.Element {
  return (
    <>
      {loaded.atMs !== null && <span class="faint">as of {clock(loaded.atMs)}</span>}
      <button type="button" onClick={loaded.reload} disabled={loaded.isLoading}>
        Refresh
      </button>
    </>
  );
}

/** The answer as `children` shows it; before there is one, that it is awaited, or why there is none. */
export function Answer<T>({ loaded, children }: { loaded: Loaded<T>; children: (data: T) => ComponentChildren }): JSX.Element {
  const { data, error, isLoading } = loaded;
  return (
    <>
      {error !== null && <Problem error={error} retry={loaded.reload} />}
      {data === null ? isLoading && error === null && <p class="faint">Loading…</p> : <div class="answer" aria-busy={isLoading}>{children(data)}</div>}
    </>
  );
}

/** Why something did not work, and what to do. */
export function Problem({ error, retry }: { error: ApiError; retry?: () => void }): JSX.Element {
  const advice = adviceFor(error);
  return (
    <div class="problem" role="alert">
      <p>
        <strong>{headline(error)}</strong> {sentence(error.message)}
      </p>
      {error.all.length > 0 && (
        <ul>
          {error.all.map((line) => (
            <li key={line}>{line}</li>
          ))}
        </ul>
      )}
      {advice !== null && <p>{advice}</p>}
      <p class="problem-foot">
        {retry !== undefined && (
          <button type="button" onClick={retry}>
            Try again
          </button>
        )}
        <code class="faint">{error.code}</code>
      </p>
    </div>
  );
}

function sentence(text: string): string {
  const first = text.charAt(0).toUpperCase() + text.slice(1);
  return /[.!?]$/.test(first) ? first : `${first}.`;
}

function headline({ status, code }: ApiError): string {
  switch (status) {
    case 0:
      return "No answer.";
    case 403:
      return "Not allowed.";
    case 404:
      return "Not found.";
    case 422:
      return "Not accepted.";
    case 503:
      return "The broker is busy.";
    default:
      return `${words(code)}.`;
  }
}

function adviceFor({ status, code }: ApiError): string | null {
  switch (status) {
    case 0:
      return code === "page_failed" ? "Load the page again." : "Check that the broker runs and that this machine still reaches its admin listener.";
    case 403:
      return "Log in as somebody who has the role or the permission that is named here. `tautwire token add` makes a token.";
    case 429:
      return "Wait a little before you try again.";
    case 503:
      return "It answers a bounded number of requests at once. Try again in a moment.";
    default:
      return null;
  }
}

/** Where there is nothing: what that means, and what to do. */
export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <p>
        <strong>{title}</strong>
      </p>
      {children !== undefined && <p>{children}</p>}
    </div>
  );
}
