// A confirmation before an irreversible action. The browser keeps the focus inside, and Escape closes it.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useId, useRef } from "preact/hooks";
import { useAction } from "../load";
import { Problem } from "./page";

interface DialogProps {
  title: string;
  /** The label of the confirming button. */
  verb: string;
  /** Runs on confirmation, then the dialog closes; a thrown error is shown. */
  action: () => Promise<void>;
  onClose: () => void;
  children: ComponentChildren;
}

export function Dialog({ title, verb, action, onClose, children }: DialogProps): JSX.Element {
  const element = useRef<HTMLDialogElement>(null);
  const heading = useId();
  const { isRunning, error, run } = useAction();
  useEffect(() => element.current?.showModal(), []);
  const submit = (event: Event): void => {
    event.preventDefault();
    run(async () => {
      await action();
      onClose();
    });
  };
  return (
    <dialog ref={element} aria-labelledby={heading} onClose={onClose}>
      <form onSubmit={submit}>
        <h2 id={heading}>{title}</h2>
        {children}
        {error !== null && <Problem error={error} />}
        <div class="dialog-foot">
          <button type="button" onClick={() => element.current?.close()}>
            Cancel
          </button>
          <button type="submit" class="danger" disabled={isRunning}>
            {verb}
          </button>
        </div>
      </form>
    </dialog>
  );
}
