// Single values: a fact with its name, a fraction, a time, a state.

import type { ComponentChildren, JSX } from "preact";
import { clock, dayAndClock, NONE, percent, relative } from "../format";

/** Names and values. */
export function Facts({ facts }: { facts: readonly (readonly [name: string, value: ComponentChildren])[] }): JSX.Element {
  return (
    <dl class="facts">
      {facts.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

/** A key figure. */
export function Figure({ name, value, note }: { name: string; value: string; note?: ComponentChildren }): JSX.Element {
  return (
    <div class="figure">
      <dt>{name}</dt>
      <dd>
        <span class="figure-value">{value}</span>
        {note !== undefined && <span class="faint">{note}</span>}
      </dd>
    </div>
  );
}

/** The fraction from which a limit counts as near. */
const NEAR = 0.8;
const AT = 0.98;

interface MeterProps {
  name: string;
  value: number | null;
  /** `null` or 0: no limit. */
  limit: number | null;
  show: (value: number) => string;
}

/** How much of a limit is used. */
export function Meter({ name, value, limit, show }: MeterProps): JSX.Element {
  if (value === null) {
    return <Figure name={name} value={NONE} note="not used" />;
  }
  if (limit === null || limit <= 0) {
    return <Figure name={name} value={show(value)} note="no limit" />;
  }
  const share = value / limit;
  const state = share >= AT ? "bad" : share >= NEAR ? "warn" : "good";
  const text = `${show(value)} of ${show(limit)}`;
  return (
    <div class="figure">
      <dt>{name}</dt>
      <dd>
        <span class="figure-value">{show(value)}</span>
        <span class="faint">
          of {show(limit)}, {percent(value, limit)}
          {state !== "good" && <strong class={`text-${state}`}> {state === "bad" ? "at the limit" : "near the limit"}</strong>}
        </span>
        <meter class={state} min={0} max={limit} value={Math.min(value, limit)} aria-label={`${name}: ${text}`} />
      </dd>
    </div>
  );
}

/** A relative time, with the exact time as its title. */
export function When({ atMs, nowMs = Date.now() }: { atMs: number | null | undefined; nowMs?: number }): JSX.Element {
  if (atMs === null || atMs === undefined) {
    return <>{NONE}</>;
  }
  return (
    <time dateTime={new Date(atMs).toISOString()} title={dayAndClock(atMs)}>
      {relative(atMs, nowMs)}
    </time>
  );
}

export function Clock({ atMs }: { atMs: number }): JSX.Element {
  return (
    <time dateTime={new Date(atMs).toISOString()} title={dayAndClock(atMs)}>
      {clock(atMs)}
    </time>
  );
}

export type State = "good" | "warn" | "bad" | "plain";

/** A state as a word; its colour adds no information. */
export function Badge({ state, children }: { state: State; children: ComponentChildren }): JSX.Element {
  return <span class={`badge ${state}`}>{children}</span>;
}
