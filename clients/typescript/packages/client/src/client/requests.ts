// Request and response (section 4.10). All requests of a client share one response topic; correlation data distinguishes them.

import type { PublishProperties, QoS } from "@tautwire/mqtt-codec";
import type { PayloadCodec } from "../codecs/codec.js";
import { asMqttError, canceled, MqttError } from "../errors.js";
import type { Client, PublishOptions } from "./client.js";
import type { Message } from "./message.js";
import { checkNames, randomName, systemClock, type Clock } from "./options.js";
import { handled } from "./promises.js";
import type { SubscribeOptions, Subscription } from "./subscription.js";

/** Options of {@link request}. */
export interface RequestOptions<R = unknown> extends Omit<PublishOptions, "codec"> {
  /** Default: 1, at which the server reports whether there is a subscriber. */
  qos?: QoS | undefined;
  /** How the request is encoded. */
  codec?: PayloadCodec<never> | undefined;
  /** How the response is decoded. */
  responseCodec?: PayloadCodec<R> | undefined;
  /** How long to wait for the response, in milliseconds. Default: 30,000. */
  timeoutMs?: number | undefined;
}

/** Options of {@link respond}. */
export interface RespondOptions<T = unknown, R = unknown> extends Omit<SubscribeOptions<T>, "ack"> {
  /** The maximum QoS of requests. Default: 2, so that each is delivered at the QoS of its PUBLISH. */
  qos?: QoS | undefined;
  /** How responses are encoded. */
  responseCodec?: PayloadCodec<R> | undefined;
  /** The QoS of responses. Default: that of the request. */
  responseQoS?: QoS | undefined;
}

/** Returns the response to a request: bytes, text, or a value for the codec. A thrown {@link ResponseFailure} is sent to the requester. */
export type Responder<T = unknown, R = unknown> = (request: Message<T>) => R | Promise<R>;

/**
 * The error that a responder throws to refuse a request. The requester gets its message as the `detail` of `request_failed`. Messages of
 * other errors are not sent, because they may contain secrets.
 */
export class ResponseFailure extends Error {
  override readonly name = "ResponseFailure";
}

/** The names of all {@link RequestOptions}. */
const REQUEST_NAMES = "qos retain properties codec signal responseCodec timeoutMs";
const DEFAULT_TIMEOUT_MS = 30_000;
/** The base of response topics, unless the server sends Response Information (section 3.2.2.3.15). */
const RESPONSE_TOPICS = "tautwire/response";
/** The name of the user property with which a responder reports a failure. */
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
          const allProperties: PublishProperties = { ...properties, responseTopic, correlationData };
          const publishOptions = { ...rest, qos, codec: codec as PayloadCodec<unknown>, properties: allProperties, signal: sending.signal };
          isSent = true;
          this.client.publish(topic, payload, publishOptions).then(({ reason }) => {
            // Without a subscriber there will be no response.
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

  /** Resolves with the response topic once the server has granted the subscription to it. */
  private async responseTopic(): Promise<string> {
    await this.client.connected();
    // The server may have refused to resubscribe after a lost session.
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
    // A response with a payload is a success, whatever user properties it has.
    const isEmpty = response.payload.length === 0;
    const failure = isEmpty ? userProperties.find(([name]) => name === ERROR_PROPERTY)?.[1] : undefined;
    if (failure === undefined) waiting.resolve(response);
    else waiting.reject(new MqttError("request_failed", failure));
  }

  private end(error: MqttError): void {
    for (const { reject } of [...this.waiting.values()]) reject(error);
    this.waiting.clear();
  }
}

/** The pending requests of each client. */
const requesters = /* @__PURE__ */ new WeakMap<Client, Requests>();

/**
 * Publishes a request and waits for its response (section 4.10). MQTT 5.0. Any number of requests can be pending.
 *
 * Rejects with {@link MqttError}: `no_responder` if the topic has no subscriber (unless the QoS is 0), `request_failed` if the
 * responder reports a failure, `request_timeout`, and as `publish`.
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
  // As for all promises of a client, a caller may ignore a rejection.
  return handled(requests.request(topic, payload, options));
}

/**
 * Responds to the requests on a topic with the result of the responder. Returns a subscription, which you can end. MQTT 5.0.
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
      const isPublic = error instanceof ResponseFailure;
      const message = isPublic ? error.message : "the responder failed";
      const properties: PublishProperties = { ...correlation, userProperties: [[ERROR_PROPERTY, message]] };
      await client.publish(responseTopic, "", { qos, properties });
      if (!isPublic) throw error;
    }
  });
}

function requireV5(client: Client): void {
  if (client.protocolVersion !== 5) throw new MqttError("not_supported", "requests need MQTT 5.0");
}
