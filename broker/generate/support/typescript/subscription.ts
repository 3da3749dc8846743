import { MqttError, type Message, type QoS, type Subscription } from "@tautwire/client";

/** A message of a contract: its value, or why it has none. */
export type Received<T, P> =
  | { readonly message: Message<T, P>; readonly parameters: P; readonly value: T; readonly error?: undefined }
  | { readonly message: Message<T, P>; readonly parameters: P; readonly value?: undefined; readonly error: MqttError };

/** Called with each message. A promise that it returns delays the acknowledgement. */
export type Handler<T, P> = (received: Received<T, P>) => unknown;

/** Marks a message that the broker could not transcode to the requested format. */
const TRANSCODING_ERROR = "tautwire-transcoding-error";

/** A message with its decoded payload. A payload that does not match the contract is an error,
 * not an exception. */
export function received<T, P>(message: Message<T, P>): Received<T, P> {
  const parameters = message.params;
  const why = message.properties.userProperties?.find(([name]) => name === TRANSCODING_ERROR);
  if (why !== undefined) return { message, parameters, error: new MqttError("payload_invalid", why[1]) };
  try {
    return { message, parameters, value: message.value };
  } catch (error) {
    if (error instanceof MqttError) return { message, parameters, error };
    throw error;
  }
}

/** The messages of a contract: iterate over them. Leaving the loop ends the subscription. */
export class ContractSubscription<T, P> implements AsyncIterable<Received<T, P>> {
  constructor(readonly subscription: Subscription<T, P>) {}

  /** The QoS that the server granted, once it has. Rejects if it refused. */
  get ready(): Promise<QoS> {
    return this.subscription.ready;
  }

  /** Ends the subscription, and its loops once they have processed pending messages. */
  unsubscribe(): Promise<void> {
    return this.subscription.unsubscribe();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Received<T, P>, void, undefined> {
    for await (const message of this.subscription) yield received(message);
  }
}
