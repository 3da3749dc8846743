// The shell: who is logged in, where to go, and whether the broker answers.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { type ApiError, currentSession, watchRequests } from "./api/request";
import type { Session } from "./api/shapes";
import { asApiError } from "./load";
import { Login } from "./login";
import { Navigation } from "./navigation";
import { pageFor } from "./pages";
import { useRoute } from "./router";
import { Problem } from "./ui/page";
import { Who } from "./who";

type Entrance = { at: "asking" } | { at: "failed"; error: ApiError } | { at: "out"; hasEnded: boolean } | { at: "in"; session: Session };

export function App(): JSX.Element {
  const [entrance, setEntrance] = useState<Entrance>({ at: "asking" });
  const [isReached, setIsReached] = useState(true);
  const [asked, setAsked] = useState(0);
  useEffect(() => {
    watchRequests(() => setEntrance({ at: "out", hasEnded: true }), setIsReached);
    currentSession().then(
      (session) => setEntrance(session === null ? { at: "out", hasEnded: false } : { at: "in", session }),
      (error: unknown) => setEntrance({ at: "failed", error: asApiError(error) }),
    );
  }, [asked]);

  switch (entrance.at) {
    case "asking":
      return <main class="entrance faint">Loading…</main>;
    case "failed":
      return (
        <main class="entrance">
          <h1>Tautwire</h1>
          <Problem error={entrance.error} retry={() => setAsked((times) => times + 1)} />
        </main>
      );
    case "out":
      return <Login hasEnded={entrance.hasEnded} onLogin={(session) => setEntrance({ at: "in", session })} />;
    case "in":
      return (
        <Who.Provider value={entrance.session}>
          <Shell session={entrance.session} isReached={isReached} onLogout={() => setEntrance({ at: "out", hasEnded: false })} />
        </Who.Provider>
      );
  }
}

function Shell({ session, isReached, onLogout }: { session: Session; isReached: boolean; onLogout: () => void }): JSX.Element {
  const route = useRoute();
  const { section, page } = pageFor(route);
  const skip = (event: Event): void => {
    // The address is the page's: a link to #main would leave it.
    event.preventDefault();
    document.querySelector<HTMLElement>("main h1")?.focus();
  };
  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <Navigation session={session} section={section} onLogout={onLogout} />
      <main id="main">
        <div role="status">
          {!isReached && (
            <p class="banner">
              <strong>The broker does not answer.</strong> What you see may be old. Check that the broker runs; this page goes on by itself as soon as it answers.
            </p>
          )}
        </div>
        {page}
      </main>
    </div>
  );
}
