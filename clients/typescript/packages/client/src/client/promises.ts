import { canceled, type MqttError } from "../errors.js";

const NOTHING = (): void => undefined;

/** Ends a promise: with the error, or with the value if that is null. */
export type Settle<T> = (error: MqttError | null, value: T) => void;

/** Whether it is a mistake of the program, which somebody must see. */
export function isMistake({ code }: MqttError): boolean {
  return code === "invalid_argument" || code === "invalid_options" || code === "payload_invalid";
}

/** A rejection that nobody looks at does not end the program: that the caller does not care is the caller's decision. */
export function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(NOTHING);
  return promise;
}

/** A promise that is settled by a callback. A mistake that nobody looks at is an unhandled rejection, as of any promise. */
export function settling<T>(begin: (settle: Settle<T>) => void): Promise<T> {
  let resolve: (value: T) => void = NOTHING;
  let reject: (error: MqttError) => void = NOTHING;
  const promise = new Promise<T>((onValue, onError) => {
    resolve = onValue;
    reject = onError;
  });
  begin((error, value) => {
    if (error === null) {
      resolve(value);
      return;
    }
    if (!isMistake(error)) promise.catch(NOTHING);
    reject(error);
  });
  return promise;
}

/** Calls back when the signal is aborted, at once if it is. Answers a function that stops to listen. */
export function whenAborted(signal: AbortSignal | undefined, callback: (error: MqttError) => void): () => void {
  if (signal === undefined) return NOTHING;
  const onAbort = () => {
    callback(canceled(signal));
  };
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort);
  return () => {
    signal.removeEventListener("abort", onAbort);
  };
}
