import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { logIn } from "./api/request";
import type { Session } from "./api/shapes";
import { useAction } from "./load";
import { Problem } from "./ui/page";

export function Login({ hasEnded, onLogin }: { hasEnded: boolean; onLogin: (session: Session) => void }): JSX.Element {
  const [kind, setKind] = useState<"token" | "user">("token");
  const [token, setToken] = useState("");
  const [user, setUser] = useState("");
  const [password, setPassword] = useState("");
  const { isRunning, error, run, clear } = useAction();
  const heading = useRef<HTMLHeadingElement>(null);
  useEffect(() => {
    document.title = "Log in – Tautwire";
    heading.current?.focus();
  }, []);
  const submit = (event: Event): void => {
    event.preventDefault();
    run(async () => {
      onLogin(await logIn(kind === "token" ? { token: token.trim() } : { user, password }));
    });
  };
  const choose = (chosen: "token" | "user") => (): void => {
    setKind(chosen);
    clear();
  };
  return (
    <main class="login-page">
      <h1 ref={heading} tabIndex={-1}>
        Log in to Tautwire
      </h1>
      {hasEnded && <p role="status">Your session has ended. Log in again to continue.</p>}
      <form onSubmit={submit}>
        <fieldset class="choice">
          <legend>Log in with</legend>
          <label>
            <input type="radio" name="kind" checked={kind === "token"} onChange={choose("token")} /> a token
          </label>
          <label>
            <input type="radio" name="kind" checked={kind === "user"} onChange={choose("user")} /> a user name
          </label>
        </fieldset>
        {kind === "token" ? (
          <label class="field">
            Token
            <input type="password" required autocomplete="current-password" spellcheck={false} value={token} onInput={(event) => setToken(event.currentTarget.value)} />
            <span class="faint">
              The content of the file in <code>admin.token_file</code>, or the output of <code>tautwire token add</code>.
            </span>
          </label>
        ) : (
          <>
            <label class="field">
              User
              <input required autocomplete="username" autocapitalize="none" spellcheck={false} value={user} onInput={(event) => setUser(event.currentTarget.value)} />
            </label>
            <label class="field">
              Password
              <input type="password" required autocomplete="current-password" value={password} onInput={(event) => setPassword(event.currentTarget.value)} />
            </label>
          </>
        )}
        {error !== null && <Problem error={error} />}
        <button type="submit" class="primary" disabled={isRunning}>
          Log in
        </button>
      </form>
    </main>
  );
}
