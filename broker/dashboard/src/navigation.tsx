import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { logOut } from "./api/request";
import type { Session } from "./api/shapes";
import { dayAndClock } from "./format";
import { useAction } from "./load";
import { SECTIONS } from "./pages";
import { href } from "./router";
import { Problem } from "./ui/page";

interface NavigationProps {
  session: Session;
  /** The current section. */
  section: string | null;
  onLogout: () => void;
}

export function Navigation({ session, section, onLogout }: NavigationProps): JSX.Element {
  const { isRunning, error, run } = useAction();
  const menu = useRef<HTMLDetailsElement>(null);
  // On a phone the menu covers the page, so a selection closes it.
  useEffect(() => {
    const close = (): void => menu.current?.removeAttribute("open");
    window.addEventListener("hashchange", close);
    return () => window.removeEventListener("hashchange", close);
  }, []);
  const leave = (): void =>
    run(async () => {
      await logOut();
      onLogout();
    });
  const list = (
    <ul>
      {SECTIONS.map(({ name, title }) => (
        <li key={name}>
          <a href={href([name])} aria-current={name === section ? "page" : undefined}>
            {title}
          </a>
        </li>
      ))}
    </ul>
  );
  const account = (
    <div class="account">
      <p>
        <strong>{session.name}</strong>
        <span class="faint" title={session.expires_ms === null ? undefined : `until ${dayAndClock(session.expires_ms)}`}>
          role {session.role}
          {session.payloads && ", payloads"}
        </span>
      </p>
      <button type="button" disabled={isRunning} onClick={leave}>
        Log out
      </button>
      {error !== null && <Problem error={error} />}
    </div>
  );
  return (
    <nav aria-label="Dashboard">
      <p class="brand">Tautwire</p>
      <div class="wide">
        {list}
        {account}
      </div>
      <details class="narrow" ref={menu}>
        <summary>Menu</summary>
        {list}
        {account}
      </details>
    </nav>
  );
}
