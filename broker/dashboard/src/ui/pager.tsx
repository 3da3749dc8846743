import type { ComponentChildren, JSX } from "preact";

/** Buttons through pages of which each names the next. `trail`: where each page before this one led to. */
export function Pager({
  trail,
  next,
  onTurn,
  children,
}: {
  trail: readonly string[];
  next: string | null;
  onTurn: (trail: readonly string[]) => void;
  /** What stands before the buttons. */
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
