// The shell: login, navigation, and whether the broker responds.

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
import { SessionContext } from "./session";

type LoginState = { at: "asking" } | { at: "failed"; error: ApiError } | { at: "out"; hasEnded: boolean } | { at: "in"; session: Session };

export function App(): JSX.Element {
  const [loginState, setLoginState] = useState<LoginState>({ at: "asking" });
  const [isReached, setIsReached] = useState(true);
  const [asked, setAsked] = useState(0);
  useEffect(() => {
    watchRequests(() => setLoginState({ at: "out", hasEnded: true }), setIsReached);
    currentSession().then(
      (session) => setLoginState(session === null ? { at: "out", hasEnded: false } : { at: "in", session }),
      (error: unknown) => setLoginState({ at: "failed", error: asApiError(error) }),
    );
  }, [asked]);

  switch (loginState.at) {
    case "asking":
      return <main class="login-page faint">Loading…</main>;
    case "failed":
      return (
        <main class="login-page">
          <h1>Tautwire</h1>
          <Problem error={loginState.error} retry={() => setAsked((times) => times + 1)} />
        </main>
      );
    case "out":
      return <Login hasEnded={loginState.hasEnded} onLogin={(session) => setLoginState({ at: "in", session })} />;
    case "in":
      return (
        <SessionContext.Provider value={loginState.session}>
          <Shell session={loginState.session} isReached={isReached} onLogout={() => setLoginState({ at: "out", hasEnded: false })} />
        </SessionContext.Provider>
      );
  }
}

function Shell({ session, isReached, onLogout }: { session: Session; isReached: boolean; onLogout: () => void }): JSX.Element {
  const route = useRoute();
  const { section, page } = pageFor(route);
  const skip = (event: Event): void => {
    // The address selects the page, so a link to #main would leave it.
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
              <strong>The broker does not answer.</strong> The data shown may be out of date. Check that the broker is running; this page updates automatically when it answers again.
            </p>
          )}
        </div>
        {page}
      </main>
    </div>
  );
}
