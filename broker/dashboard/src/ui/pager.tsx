import type { ComponentChildren, JSX } from "preact";

/** Paging buttons, where each page has the start of the next. `trail`: the starts of the previous pages. */
export function Pager({
  trail,
  next,
  onTurn,
  children,
}: {
  trail: readonly string[];
  next: string | null;
  onTurn: (trail: readonly string[]) => void;
  /** Shown before the buttons. */
  children?: ComponentChildren;
}): JSX.Element {
  return (
    <div class="pager">
      {children}
      {trail.length > 0 && (
        <button type="button" onClick={() => onTurn(trail.slice(0, -1))}>
          Previous
        </button>
      )}
      {next !== null && (
        <button type="button" onClick={() => onTurn([...trail, next])}>
          Next
        </button>
      )}
    </div>
  );
}
