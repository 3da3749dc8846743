import { canceled, type MqttError } from "../errors.js";

const NOTHING = (): void => undefined;

/** Settles a promise: rejects with the error, or resolves with the value if the error is null. */
export type Settle<T> = (error: MqttError | null, value: T) => void;

/** Whether an error is a programming error, which must not go unnoticed. */
export function isMistake({ code }: MqttError): boolean {
  return code === "invalid_argument" || code === "invalid_options" || code === "payload_invalid";
}

/** Prevents an unhandled rejection: a caller may ignore the result, and that must not end the program. */
export function handled<T>(promise: Promise<T>): Promise<T> {
  promise.catch(NOTHING);
  return promise;
}

/** Returns a promise that a callback settles. Only programming errors can become unhandled rejections. */
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

/** Calls back when the signal is aborted, at once if it already is. Returns a function that stops listening. */
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
