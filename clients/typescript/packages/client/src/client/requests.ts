// Request and response (section 4.10): one response topic for all requests of a client, told apart by correlation data.

import type { PublishProperties, QoS } from "@tautwire/mqtt-codec";
import type { PayloadCodec } from "../codecs/codec.js";
import { asMqttError, canceled, MqttError } from "../errors.js";
import type { Client, PublishOptions } from "./client.js";
import type { Message } from "./message.js";
import { checkNames, randomName, systemClock, type Clock } from "./options.js";
import { handled } from "./promises.js";
import type { SubscribeOptions, Subscription } from "./subscription.js";

/** How a request is made. */
export interface RequestOptions<R = unknown> extends Omit<PublishOptions, "codec"> {
  /** Default: 1, at which the server says whether anybody listens. */
  qos?: QoS | undefined;
  /** How the request is encoded. */
  codec?: PayloadCodec<never> | undefined;
  /** How the response is decoded. */
  responseCodec?: PayloadCodec<R> | undefined;
  /** How long to wait for the response, in milliseconds. Default: 30,000. */
  timeoutMs?: number | undefined;
}

/** How requests are received and answered. */
export interface RespondOptions<T = unknown, R = unknown> extends Omit<SubscribeOptions<T>, "ack"> {
  /** The highest QoS at which requests come. Default: 2, that at which each was published. */
  qos?: QoS | undefined;
  /** How responses are encoded. */
  responseCodec?: PayloadCodec<R> | undefined;
  /** The QoS of responses. Default: that of the request. */
  responseQoS?: QoS | undefined;
}

/** Answers a request: bytes, text, or a value for the codec. A {@link ResponseFailure} that it throws is told to the requester. */
export type Responder<T = unknown, R = unknown> = (request: Message<T>) => R | Promise<R>;

/**
 * What a responder throws to refuse a request. The requester gets the sentence, as the `detail` of `request_failed`. Of any other error it
 * learns only that there was one, because the text of an error may hold secrets.
 */
export class ResponseFailure extends Error {
  override readonly name = "ResponseFailure";
}

/** The names of all {@link RequestOptions}. */
const REQUEST_NAMES = "qos retain properties codec signal responseCodec timeoutMs";
const DEFAULT_TIMEOUT_MS = 30_000;
/** What response topics begin with, unless the server says it (section 3.2.2.3.15). */
const RESPONSE_TOPICS = "tautwire/response";
/** The name of the user property by which a responder says that it failed. */
const ERROR_PROPERTY = "error";
const NO_MATCHING_SUBSCRIBERS = 0x10;

interface Waiting {
  readonly resolve: (response: Message) => void;
  readonly reject: (error: MqttError) => void;
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
      this.end(new MqttError("closed", "", { cause: error ?? undefined }));
    });
  }

  async request<R>(topic: string, payload: unknown, options: RequestOptions<R>): Promise<Message<R>> {
    checkNames(options, REQUEST_NAMES);
    const { signal, timeoutMs = DEFAULT_TIMEOUT_MS, responseCodec, codec, properties, qos = 1, ...rest } = options;
    if (signal?.aborted === true) throw canceled(signal);
    requireV5(this.client);
    const sending = new AbortController();
    const id = `${this.name}${(++this.count).toString(36)}`;
    let timer: unknown;
    let onAbort: () => void = () => undefined;
    try {
      return await new Promise<Message<R>>((resolve, reject) => {
        let isSent = false;
        const fail = (error: unknown) => {
          reject(asMqttError(error, "request_failed"));
        };
        onAbort = () => {
          fail(isSent ? new MqttError("unacknowledged", topic, { cause: signal!.reason }) : canceled(signal!));
        };
        signal?.addEventListener("abort", onAbort);
        timer = this.clock.setTimeout(() => {
          fail(new MqttError("request_timeout", `${topic}, ${timeoutMs} ms`));
        }, timeoutMs);
        this.responseTopic().then((responseTopic) => {
          if (sending.signal.aborted) return;
          this.waiting.set(id, { resolve: resolve as Waiting["resolve"], reject: fail });
          const correlationData = new TextEncoder().encode(id);
          const all: PublishProperties = { ...properties, responseTopic, correlationData };
          const how = { ...rest, qos, codec: codec as PayloadCodec<unknown>, properties: all, signal: sending.signal };
          isSent = true;
          this.client.publish(topic, payload, how).then(({ reason }) => {
            // Nobody will answer.
            if (reason === NO_MATCHING_SUBSCRIBERS) fail(new MqttError("no_responder", topic, { reason }));
          }, fail);
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
    // The server may have refused to renew it after a lost session.
    if (this.responses === null || this.responses.subscription.isOver) {
      const base = this.client.connack?.properties.responseInformation ?? RESPONSE_TOPICS;
      const topic = `${base.replace(/\/+$/, "")}/${this.name}`;
      const subscription = this.client.subscribe(topic, { qos: 2 }, (response) => {
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
 * Rejects with {@link MqttError}: `no_responder` if nobody has subscribed to the topic (unless the QoS is 0), `request_failed` if the
 * responder said so, `request_timeout`, and as `publish`.
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
  // As with all promises of a client: not to look at a rejection is the caller's decision.
  return handled(requests.request(topic, payload, options));
}

/**
 * Answers the requests on a topic with what the responder returns. Ends as a subscription does. MQTT 5.0.
 *
 * @throws {MqttError} `not_supported` before MQTT 5.0, and as `subscribe`.
 */
export function respond<T = unknown, R = unknown>(
  client: Client,
  filter: string | readonly string[],
  responder: Responder<T, R>,
  options: RespondOptions<T, R> = {},
): Subscription<T> {
  const { responseCodec, responseQoS, ...rest } = options;
  requireV5(client);
  return client.subscribe(filter, { ...rest, qos: rest.qos ?? 2 }, async (request) => {
    const { responseTopic, correlationData } = request.properties;
    if (responseTopic === undefined) {
      await responder(request);
      return;
    }
    const qos = responseQoS ?? request.qos;
    const correlation: PublishProperties = correlationData === undefined ? {} : { correlationData };
    try {
      const value = await responder(request);
      await client.publish(responseTopic, value ?? "", { qos, codec: responseCodec, properties: correlation });
    } catch (error) {
      const isMeant = error instanceof ResponseFailure;
      const said = isMeant ? error.message : "the responder failed";
      const properties: PublishProperties = { ...correlation, userProperties: [[ERROR_PROPERTY, said]] };
      await client.publish(responseTopic, "", { qos, properties });
      if (!isMeant) throw error;
    }
  });
}

function requireV5(client: Client): void {
  if (client.protocolVersion !== 5) throw new MqttError("not_supported", "requests before MQTT 5.0");
}
