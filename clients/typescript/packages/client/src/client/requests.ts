// Request and response (section 4.10): one response topic for all requests of a client, told apart by correlation data.

import type { PublishProperties, QoS } from "@tautwire/mqtt-codec";
import type { PayloadCodec } from "../codecs/codec.js";
import { aborted, asMqttError, MqttError } from "../errors.js";
import type { Client, PublishOptions } from "./client.js";
import type { Message } from "./message.js";
import { randomName, systemClock, type Clock } from "./options.js";
import type { SubscribeOptions, Subscription } from "./subscription.js";

/** How a request is made. */
export interface RequestOptions<R = unknown> extends Omit<PublishOptions, "codec"> {
  /** How the request is encoded. */
  codec?: PayloadCodec<never> | undefined;
  /** How the response is decoded. */
  responseCodec?: PayloadCodec<R> | undefined;
  /** How long to wait for the response, in milliseconds. Default: 30,000. */
  timeoutMs?: number | undefined;
}

/** How requests are received and answered. */
export interface RespondOptions<T = unknown, R = unknown> extends Omit<SubscribeOptions<T>, "ack"> {
  /** How responses are encoded. */
  responseCodec?: PayloadCodec<R> | undefined;
  /** The QoS of responses. Default: that of the request. */
  responseQoS?: QoS | undefined;
}

/** Answers a request: bytes, text, or a value for the codec. An `MqttError` that it throws is told to the requester. */
export type Responder<T = unknown, R = unknown> = (request: Message<T>) => R | Promise<R>;

const DEFAULT_TIMEOUT_MS = 30_000;
/** The name of the user property by which a responder says that it failed. */
const ERROR_PROPERTY = "error";

interface Waiting {
  readonly resolve: (response: Message) => void;
  readonly reject: (error: MqttError) => void;
  readonly subscription: Subscription;
}

class Requests {
  private readonly waiting = new Map<string, Waiting>();
  private readonly name = randomName();
  private count = 0;
  private responses: { topic: string; subscription: Subscription } | null = null;

  private readonly clock: Clock;

  constructor(private readonly client: Client) {
    this.clock = client.options.clock ?? systemClock;
    client.on("closed", ({ error }) => {
      this.end(new MqttError("closed", "the client is closed", error === null ? {} : { cause: error }));
    });
  }

  async request<R>(topic: string, payload: unknown, options: RequestOptions<R>): Promise<Message<R>> {
    const { signal, timeoutMs = DEFAULT_TIMEOUT_MS, responseCodec, codec, properties, ...rest } = options;
    if (signal?.aborted === true) throw aborted(signal);
    if (this.client.protocolVersion !== 5) throw new MqttError("not_supported", "requests need MQTT 5.0");
    const sending = new AbortController();
    const id = `${this.name}${(++this.count).toString(36)}`;
    let timer: unknown;
    let onAbort: () => void = () => undefined;
    try {
      return await new Promise<Message<R>>((resolve, reject) => {
        const fail = (error: unknown) => {
          reject(asMqttError(error, "request_failed", "the request failed"));
        };
        onAbort = () => {
          fail(aborted(signal!));
        };
        signal?.addEventListener("abort", onAbort);
        timer = this.clock.setTimeout(() => {
          fail(new MqttError("request_timeout", `no response within ${timeoutMs} ms`));
        }, timeoutMs);
        this.responseTopic().then((responseTopic) => {
          if (sending.signal.aborted) return;
          const { subscription } = this.responses!;
          this.waiting.set(id, { resolve: resolve as Waiting["resolve"], reject: fail, subscription });
          const correlationData = new TextEncoder().encode(id);
          const all: PublishProperties = { ...properties, responseTopic, correlationData };
          this.client
            .publish(topic, payload, { ...rest, codec: codec as PayloadCodec<unknown>, properties: all, signal: sending.signal })
            .catch(fail);
        }, fail);
      }).then((response) => (responseCodec === undefined ? response : response.as(responseCodec)));
    } finally {
      this.waiting.delete(id);
      this.clock.clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      sending.abort();
    }
  }

  /** Where responses come, once the server has granted the subscription. */
  private async responseTopic(): Promise<string> {
    await this.client.connected();
    if (this.responses === null) {
      const base = this.client.connack?.properties.responseInformation ?? "responses";
      const topic = `${base.replace(/\/+$/, "")}/${this.name}`;
      const subscription = this.client.subscribe(topic, { qos: 1 }, (response) => {
        this.onResponse(response);
      });
      this.responses = { topic, subscription };
    }
    const { topic, subscription } = this.responses;
    try {
      await subscription.ready;
    } catch (error) {
      this.responses = null;
      throw error;
    }
    return topic;
  }

  private onResponse(response: Message): void {
    const { correlationData, userProperties = [] } = response.properties;
    const waiting = correlationData && this.waiting.get(new TextDecoder().decode(correlationData));
    if (waiting === undefined) {
      this.client.counters.lateResponses++;
      return;
    }
    const failure = userProperties.find(([name]) => name === ERROR_PROPERTY)?.[1];
    if (failure === undefined) waiting.resolve(response);
    else waiting.reject(new MqttError("request_failed", failure));
  }

  private end(error: MqttError): void {
    for (const { reject } of [...this.waiting.values()]) reject(error);
    this.waiting.clear();
  }
}

/** One for each client that makes requests. */
const requesters = /* @__PURE__ */ new WeakMap<Client, Requests>();

/**
 * Publishes a request and waits for its response (section 4.10). MQTT 5.0. Any number of requests may wait at a time.
 *
 * Rejects with {@link MqttError}: `request_timeout`, `request_failed` if the responder said so, and as `publish`.
 */
export function request<R = unknown>(
  client: Client,
  topic: string,
  payload: unknown,
  options: RequestOptions<R> = {},
): Promise<Message<R>> {
  let requests = requesters.get(client);
  if (requests === undefined) {
    requests = new Requests(client);
    requesters.set(client, requests);
  }
  const response = requests.request(topic, payload, options);
  // As with all promises of a client: not to look at a rejection is the caller's decision.
  response.catch(() => undefined);
  return response;
}

/** Answers the requests on a topic with what the responder returns. Ends as a subscription does. MQTT 5.0. */
export function respond<T = unknown, R = unknown>(
  client: Client,
  filter: string,
  responder: Responder<T, R>,
  options: RespondOptions<T, R> = {},
): Subscription<T> {
  const { responseCodec, responseQoS, ...rest } = options;
  return client.subscribe(filter, rest, async (request) => {
    const { responseTopic, correlationData } = request.properties;
    if (responseTopic === undefined) {
      await responder(request);
      return;
    }
    const answer: PublishOptions = { qos: responseQoS ?? request.qos, codec: responseCodec };
    const correlation: PublishProperties = correlationData === undefined ? {} : { correlationData };
    let value: unknown;
    try {
      value = await responder(request);
      await client.publish(responseTopic, value ?? "", { ...answer, properties: correlation });
    } catch (error) {
      // What an unexpected error says is not for others to read.
      const said = error instanceof MqttError ? error.message : "the responder failed";
      const properties: PublishProperties = { ...correlation, userProperties: [[ERROR_PROPERTY, said]] };
      await client.publish(responseTopic, "", { qos: answer.qos, properties });
      throw error;
    }
  });
}
