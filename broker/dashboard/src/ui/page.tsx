// The frame of a page: a heading that receives the focus when the page opens, and its error and empty states.

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
  // Before the user can type into the page: later, it would steal the focus.
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

/** A refresh button, and the age of the data. */
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

/** Renders the response with `children`, or a loading or error state. */
export function LoadedContent<T>({ loaded, children }: { loaded: Loaded<T>; children: (data: T) => ComponentChildren }): JSX.Element {
  const { data, error, isLoading } = loaded;
  return (
    <>
      {error !== null && <Problem error={error} retry={loaded.reload} />}
      {data === null ? isLoading && error === null && <p class="faint">Loading…</p> : <div class="answer" aria-busy={isLoading}>{children(data)}</div>}
    </>
  );
}

/** An error, and what to do. */
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
      return code === "page_failed" ? "Reload the page." : "Check that the broker is running and that this machine can reach its admin listener.";
    case 403:
      return "Log in with the role or the permission named here. `tautwire token add` creates a token.";
    case 429:
      return "Wait a little before you try again.";
    case 503:
      return "It limits concurrent requests. Try again in a moment.";
    default:
      return null;
  }
}

/** An empty state: what it means, and what to do. */
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
