// Shared by the cases: the command line, output lines, and an MQTT.js client with awaited steps.

import { randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { isDeepStrictEqual } from 'node:util'
import mqtt from 'mqtt'

export const CASE_TIMEOUT_MS = 60_000

/** TLS, if the environment sets its files. */
const TLS = process.env.TAUTWIRE_TLS_CA === undefined ? {} : {
  protocol: 'mqtts',
  ca: readFileSync(process.env.TAUTWIRE_TLS_CA),
  ...(process.env.TAUTWIRE_TLS_CERT !== undefined && {
    cert: readFileSync(process.env.TAUTWIRE_TLS_CERT),
    key: readFileSync(process.env.TAUTWIRE_TLS_KEY),
  }),
}

/** One run of one case: the address of the broker, unique names, and a deadline. */
export class Context {
  #tag = randomBytes(6).toString('hex')
  #clients = []
  #late = deferred()

  constructor(host, port) {
    this.host = host
    this.port = port
    // Without a waiter, a rejection is not an error.
    this.#late.promise.catch(() => {})
  }

  get tag() {
    return this.#tag
  }

  topic(suffix) {
    return `interop/${this.#tag}/${suffix}`
  }

  clientId(suffix) {
    return `interop-${this.#tag}-${suffix}`
  }

  owns(client) {
    this.#clients.push(client)
  }

  /** Waits for `promise`, but not beyond the case's deadline. */
  async inTime(promise, what) {
    const late = this.#late.promise.catch(() => {
      throw new Failure(`no ${what} within ${CASE_TIMEOUT_MS / 1000} s`)
    })
    return Promise.race([promise, late])
  }

  giveUp() {
    this.#late.reject(new Failure('the deadline has passed'))
  }

  cleanUp() {
    for (const client of this.#clients) {
      client.end(true)
      client.stream?.destroy()
    }
  }
}

export class Failure extends Error {}

export function expectEqual(got, want, what) {
  if (!isDeepStrictEqual(got, want)) throw new Failure(`${what}: got ${short(got)}, want ${short(want)}`)
}

export function expect(condition, what) {
  if (!condition) throw new Failure(what)
}

/** Every message went to exactly one member, and no member got less than half a fair share. */
export function expectBalanced(counts, total) {
  const sum = counts.reduce((left, right) => left + right, 0)
  expectEqual(sum, total, `messages delivered across the group ${counts}`)
  expect(Math.min(...counts) >= total / counts.length / 2, `unbalanced shared subscription: ${counts}`)
}

/** A promise and the functions that settle it. */
function deferred() {
  const parts = {}
  parts.promise = new Promise((resolve, reject) => Object.assign(parts, { resolve, reject }))
  return parts
}

/** Sleeps, only to test the passing of time (expiry, delays); never to wait for an event. */
export function letPass(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds))
}

/** One connection. Received messages are queued until `receive` takes them. */
export class Peer {
  #messages = []
  #waiting = null

  /** Connects and waits for the CONNACK. `options` are MQTT.js's own. */
  static async connect(context, version, options = {}) {
    const peer = new Peer(context, version, options)
    await peer.connected()
    return peer
  }

  constructor(context, version, options) {
    this.context = context
    this.client = mqtt.connect({
      host: context.host,
      port: context.port,
      protocolVersion: version,
      reconnectPeriod: 0,
      resubscribe: false,
      connectTimeout: CASE_TIMEOUT_MS,
      ...TLS,
      ...options,
    })
    context.owns(this.client)
    // Without a listener an error would end the process; waiters notice its effects.
    this.client.on('error', (error) => (this.error = error))
    this.client.on('connect', (connack) => (this.connack = connack))
    this.client.on('disconnect', (packet) => (this.disconnectReason = packet.reasonCode))
    this.client.on('message', (topic, payload, packet) => this.keep({ ...packet, topic, payload }))
  }

  async connected() {
    const refused = new Promise((_, reject) => {
      this.client.once('close', () => reject(new Failure(`closed before a CONNACK: ${this.error?.message ?? ''}`)))
    })
    refused.catch(() => {})
    await Promise.race([this.#event('connect', 'CONNACK'), refused])
  }

  /** Subscribes with one QoS for all filters and returns the granted QoS of each. */
  async subscribe(filters, qos = 0, options = {}) {
    const granted = await this.context.inTime(this.client.subscribeAsync(filters, { qos, ...options }), 'SUBACK')
    const codes = granted.map((grant) => grant.qos)
    expect(codes.every((code) => code <= 2), `subscription refused: ${codes}`)
    return codes
  }

  async unsubscribe(filters) {
    return this.context.inTime(this.client.unsubscribeAsync(filters), 'UNSUBACK')
  }

  /** Publishes and waits until its exchange is complete. */
  async publish(topic, payload, qos = 0, options = {}) {
    return this.context.inTime(this.client.publishAsync(topic, payload, { qos, ...options }), `end of a QoS ${qos} publish`)
  }

  async publishAll(messages, qos) {
    await Promise.all(messages.map(([topic, payload]) => this.publish(topic, payload, qos)))
  }

  keep(message) {
    this.#messages.push(message)
    this.#waiting?.()
  }

  async receive() {
    while (this.#messages.length === 0) {
      await this.context.inTime(new Promise((resolve) => (this.#waiting = resolve)), 'message')
    }
    return this.#messages.shift()
  }

  async receiveMany(count) {
    const messages = []
    try {
      while (messages.length < count) messages.push(await this.receive())
    } catch (error) {
      throw new Failure(`${error.message}: ${messages.length} of ${count} so far`)
    }
    return messages
  }

  /** Everything that arrives before the message with this payload: the fence, which is not returned. */
  async receiveUntil(payload) {
    const messages = []
    for (;;) {
      const message = await this.receive()
      if (message.payload.toString() === payload) return messages
      messages.push(message)
    }
  }

  /** Leaves with a DISCONNECT packet. */
  async disconnect(options = {}) {
    await this.context.inTime(this.client.endAsync(false, options), 'end of the connection')
  }

  /** Closes the TCP connection without DISCONNECT, like a crash. */
  async cut() {
    const closed = this.closed()
    this.client.stream.destroy()
    await closed
  }

  async closed() {
    await this.#event('close', 'end of the connection')
  }

  /** Waits for the next packet of this kind from the broker. */
  async packet(kind) {
    const arrived = new Promise((resolve) => {
      this.client.on('packetreceive', (packet) => packet.cmd === kind && resolve(packet))
    })
    return this.context.inTime(arrived, kind)
  }

  /** Reconnects the same client, with its stored messages. */
  async reconnect() {
    const connected = this.connected()
    this.client.reconnect()
    await connected
  }

  async #event(name, what) {
    await this.context.inTime(new Promise((resolve) => this.client.once(name, resolve)), what)
  }
}

export function payloads(messages) {
  return messages.map((message) => message.payload.toString())
}

/** Runs the driver's command line: `HOST PORT [CASE…]` or `--list`. Returns the exit status. */
export async function main(cases, args) {
  if (args.length === 1 && args[0] === '--list') {
    console.log(Object.keys(cases).join('\n'))
    return 0
  }
  const [host, port, ...chosen] = args
  if (!host || !/^\d+$/.test(port ?? '')) {
    console.error('usage: driver.mjs HOST PORT [CASE…] | --list')
    return 2
  }
  const names = chosen.length > 0 ? chosen : Object.keys(cases)
  const unknown = names.filter((name) => !Object.hasOwn(cases, name))
  if (unknown.length > 0) {
    console.error(`unknown case: ${unknown.join(', ')}`)
    return 2
  }
  let failed = 0
  for (const name of names) {
    if (!(await run(name, cases[name], host, Number(port)))) failed += 1
  }
  return failed === 0 ? 0 : 1
}

async function run(name, body, host, port) {
  const context = new Context(host, port)
  const deadline = setTimeout(() => context.giveUp(), CASE_TIMEOUT_MS)
  try {
    await body(context)
    console.log(`ok ${name}`)
    return true
  } catch (error) {
    const reason = error instanceof Failure ? error.message : `${error.name}: ${error.message}`
    console.log(`FAIL ${name}: ${reason.split('\n')[0]}`)
    return false
  } finally {
    clearTimeout(deadline)
    context.cleanUp()
  }
}

function short(value) {
  const text = JSON.stringify(value) ?? String(value)
  return text.length <= 300 ? text : `${text.slice(0, 300)}… (${text.length} characters)`
}
