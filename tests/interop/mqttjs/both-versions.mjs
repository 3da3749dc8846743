// Cases that mean the same in MQTT 3.1.1 and 5.0; each takes the version to speak (4 or 5).

import { createHash, randomBytes } from 'node:crypto'
import { Peer, expect, expectBalanced, expectEqual, payloads } from './harness.mjs'

const LARGE_PAYLOAD_BYTES = 1024 * 1024
const MESSAGES = 100
const SHARED_MESSAGES = 300

/** Options of a client with a persistent session. */
export function persistent(context, version, name, options = {}) {
  const session = version === 5 ? { properties: { sessionExpiryInterval: 300 } } : {}
  return { clientId: context.clientId(name), clean: false, ...session, ...options }
}

const numbered = (count, prefix) => Array.from({ length: count }, (_, number) => `${prefix} ${number}`)

const will = (topic, options = {}) => ({ will: { topic, payload: Buffer.from('gone'), qos: 1, retain: false, ...options } })

const roundtrip = (qos) => async (context, version) => {
  const topic = context.topic('roundtrip')
  const subscriber = await Peer.connect(context, version)
  const publisher = await Peer.connect(context, version)
  expectEqual(await subscriber.subscribe(topic, qos), [qos], 'granted QoS')
  const sent = numbered(MESSAGES, 'message')
  await publisher.publishAll([...sent, 'fence'].map((payload) => [topic, payload]), qos)
  const received = await subscriber.receiveUntil('fence')
  expectEqual(payloads(received), sent, 'payloads')
  expectEqual(
    received.filter((message) => message.qos !== qos || message.retain || message.dup).length,
    0,
    'messages with another QoS, RETAIN or DUP',
  )
}

async function qosIsTheLowerOfBoth(context, version) {
  const publisher = await Peer.connect(context, version)
  for (const granted of [0, 1, 2]) {
    const topic = context.topic(`granted/${granted}`)
    const subscriber = await Peer.connect(context, version)
    await subscriber.subscribe(topic, granted)
    for (const sent of [0, 1, 2]) {
      await publisher.publish(topic, 'x', sent)
      expectEqual((await subscriber.receive()).qos, Math.min(sent, granted), `sent at ${sent}, granted ${granted}`)
    }
  }
}

async function wildcards(context, version) {
  const subscriber = await Peer.connect(context, version)
  const publisher = await Peer.connect(context, version)
  await subscriber.subscribe([context.topic('a/+/c'), context.topic('b/#')], 1)
  const matching = ['a/x/c', 'a//c', 'b', 'b/x', 'b/x/y']
  for (const suffix of [...matching, 'a/c', 'a/x/y/c', 'bb', 'fence', 'b/fence']) {
    await publisher.publish(context.topic(suffix), suffix, 1)
  }
  expectEqual(payloads(await subscriber.receiveUntil('b/fence')), matching, 'topics')
}

async function overlappingSubscriptions(context, version) {
  const subscriber = await Peer.connect(context, version)
  const publisher = await Peer.connect(context, version)
  await subscriber.subscribe(context.topic('a/#'), 0)
  await subscriber.subscribe(context.topic('a/+'), 2)
  await subscriber.subscribe(context.topic('a/b'), 1)
  await publisher.publish(context.topic('a/b'), 'once', 2)
  await publisher.publish(context.topic('a/b'), 'fence', 2)
  const received = await subscriber.receiveUntil('fence')
  expectEqual(received.map((message) => [message.payload.toString(), message.qos]), [['once', 2]], 'copies')
}

async function unsubscribe(context, version) {
  const [left, kept] = [context.topic('left'), context.topic('kept')]
  const subscriber = await Peer.connect(context, version)
  const publisher = await Peer.connect(context, version)
  await subscriber.subscribe([left, kept], 1)
  await subscriber.unsubscribe(left)
  await publisher.publish(left, 'unwanted', 1)
  await publisher.publish(kept, 'fence', 1)
  expectEqual(payloads(await subscriber.receiveUntil('fence')), [], 'messages after UNSUBACK')
}

async function retainedOnSubscribe(context, version) {
  const topic = context.topic('retained')
  const live = await Peer.connect(context, version)
  const publisher = await Peer.connect(context, version)
  await live.subscribe(topic, 2)
  for (const qos of [0, 1, 2]) {
    await publisher.publish(topic, `value ${qos}`, qos, { retain: true })
    const now = await live.receive()
    expectEqual([now.payload.toString(), now.retain], [`value ${qos}`, false], 'to a live subscription')
    const late = await Peer.connect(context, version)
    await late.subscribe(context.topic('+'), 2)
    const message = await late.receive()
    expectEqual(
      [message.topic, message.payload.toString(), message.qos, message.retain],
      [topic, `value ${qos}`, qos, true],
      'to a new subscription',
    )
  }
}

async function retainedReplace(context, version) {
  const topic = context.topic('retained')
  const publisher = await Peer.connect(context, version)
  const subscriber = await Peer.connect(context, version)
  for (const value of ['first', 'second', 'third']) await publisher.publish(topic, value, 1, { retain: true })
  await publisher.publish(topic, 'not retained', 1)
  await subscriber.subscribe(topic, 1)
  await publisher.publish(topic, 'fence', 1)
  expectEqual(payloads(await subscriber.receiveUntil('fence')), ['third'], 'retained messages')
}

async function retainedDelete(context, version) {
  const topic = context.topic('retained')
  const publisher = await Peer.connect(context, version)
  const live = await Peer.connect(context, version)
  const late = await Peer.connect(context, version)
  await publisher.publish(topic, 'value', 1, { retain: true })
  await live.subscribe(topic, 1)
  expectEqual((await live.receive()).payload.toString(), 'value', 'retained message before it is deleted')
  await publisher.publish(topic, '', 1, { retain: true })
  const message = await live.receive()
  expectEqual([message.payload.length, message.retain], [0, false], 'the deletion, to a live subscription')
  await late.subscribe(topic, 1)
  await publisher.publish(topic, 'fence', 1)
  expectEqual(payloads(await late.receiveUntil('fence')), [], 'retained messages after deletion')
}

async function willOnCut(context, version) {
  const watcher = await Peer.connect(context, version)
  await watcher.subscribe(context.topic('will/+'), 2)
  for (const qos of [0, 1, 2]) {
    const topic = context.topic(`will/${qos}`)
    const dying = await Peer.connect(context, version, will(topic, { qos }))
    await dying.cut()
    const message = await watcher.receive()
    expectEqual(
      [message.topic, message.payload.toString(), message.qos, message.retain],
      [topic, 'gone', qos, false],
      'will',
    )
  }
}

async function willRetained(context, version) {
  const topic = context.topic('will')
  const watcher = await Peer.connect(context, version)
  await watcher.subscribe(topic, 1)
  const dying = await Peer.connect(context, version, will(topic, { retain: true }))
  await dying.cut()
  expectEqual((await watcher.receive()).retain, false, 'RETAIN to a live subscription')
  const late = await Peer.connect(context, version)
  await late.subscribe(topic, 1)
  const message = await late.receive()
  expectEqual([message.payload.toString(), message.retain], ['gone', true], 'will to a new subscription')
}

async function noWillOnDisconnect(context, version) {
  const topic = context.topic('will')
  const clientId = context.clientId('leaving')
  const watcher = await Peer.connect(context, version)
  await watcher.subscribe(topic, 1)
  const leaving = await Peer.connect(context, version, { clientId, ...will(topic) })
  await leaving.disconnect()
  // The same client id again: its CONNACK proves that the broker has closed the first connection.
  const again = await Peer.connect(context, version, { clientId })
  await again.publish(topic, 'fence', 1)
  expectEqual(payloads(await watcher.receiveUntil('fence')), [], 'wills after DISCONNECT')
}

async function sharedSubscription(context, version) {
  const share = `$share/group-${context.tag}/${context.topic('work/+')}`
  const members = []
  for (let count = 0; count < 3; count += 1) {
    const member = await Peer.connect(context, version)
    await member.subscribe([share, context.topic('fence')], 1)
    members.push(member)
  }
  const publisher = await Peer.connect(context, version)
  const sent = numbered(SHARED_MESSAGES, 'job')
  await publisher.publishAll(sent.map((payload, number) => [context.topic(`work/${number % 7}`), payload]), 1)
  // Members unsubscribe first: their messages have been sent by then, and the fence follows.
  for (const member of members) await member.unsubscribe(share)
  await publisher.publish(context.topic('fence'), 'fence', 1)
  const shares = []
  for (const member of members) shares.push(payloads(await member.receiveUntil('fence')))
  expectBalanced(shares.map((jobs) => jobs.length), SHARED_MESSAGES)
  expectEqual(shares.flat().sort(), [...sent].sort(), 'jobs')
}

async function largePayload(context, version) {
  const topic = context.topic('large')
  const payload = randomBytes(LARGE_PAYLOAD_BYTES)
  const digest = (bytes) => createHash('sha256').update(bytes).digest('hex')
  const subscriber = await Peer.connect(context, version)
  const publisher = await Peer.connect(context, version)
  await subscriber.subscribe(topic, 2)
  for (const qos of [0, 1, 2]) {
    await publisher.publish(topic, payload, qos)
    const received = (await subscriber.receive()).payload
    expectEqual(received.length, payload.length, 'length in bytes')
    expectEqual(digest(received), digest(payload), 'SHA-256')
  }
}

async function persistentSession(context, version) {
  const publisher = await Peer.connect(context, version)
  const first = await Peer.connect(context, version, persistent(context, version, 'away'))
  expect(!first.connack.sessionPresent, 'session present on the first connection')
  const topics = { 1: context.topic('queued/1'), 2: context.topic('queued/2') }
  for (const qos of [1, 2]) await first.subscribe(topics[qos], qos)
  await first.disconnect()
  const sent = { 1: numbered(MESSAGES, 'one'), 2: numbered(MESSAGES, 'two') }
  for (const qos of [1, 2]) await publisher.publishAll(sent[qos].map((payload) => [topics[qos], payload]), qos)
  const back = await Peer.connect(context, version, persistent(context, version, 'away'))
  expect(back.connack.sessionPresent, 'no session present after reconnection')
  for (const qos of [1, 2]) await publisher.publish(topics[qos], 'live', qos)
  const received = await back.receiveMany(2 * MESSAGES + 2)
  for (const qos of [1, 2]) {
    const here = received.filter((message) => message.topic === topics[qos])
    expectEqual(payloads(here), [...sent[qos], 'live'], `QoS ${qos} payloads, queued then live`)
    expect(here.every((message) => message.qos === qos), `not all at QoS ${qos}`)
  }
}

async function persistentSessionAfterCut(context, version) {
  const topic = context.topic('queued')
  const publisher = await Peer.connect(context, version)
  const client = await Peer.connect(context, version, persistent(context, version, 'away'))
  await client.subscribe(topic, 2)
  await client.cut()
  const sent = numbered(MESSAGES, 'message')
  await publisher.publishAll(sent.map((payload) => [topic, payload]), 2)
  // The same client object reconnects, as in applications.
  await client.reconnect()
  expect(client.connack.sessionPresent, 'no session present after reconnection')
  await publisher.publish(topic, 'fence', 2)
  expectEqual(payloads(await client.receiveUntil('fence')), sent, 'payloads')
}

async function publishesWhileOffline(context, version) {
  const topic = context.topic('outbox')
  const subscriber = await Peer.connect(context, version)
  await subscriber.subscribe(topic, 2)
  const options = persistent(context, version, 'offline', { reconnectPeriod: 10 })
  const publisher = await Peer.connect(context, version, options)
  // Cut during exchanges; the client resends them, and the broker must not deliver twice.
  const sent = numbered(MESSAGES, 'message')
  const underWay = publisher.packet('pubrec')
  const early = Promise.all(sent.slice(0, 50).map((payload) => publisher.publish(topic, payload, 2)))
  await underWay
  await publisher.cut()
  const late = Promise.all(sent.slice(50).map((payload) => publisher.publish(topic, payload, 2)))
  await Promise.all([early, late])
  expect(publisher.connack.sessionPresent, 'no session present after reconnection')
  await publisher.publish(topic, 'fence', 2)
  expectEqual(payloads(await subscriber.receiveUntil('fence')), sent, 'payloads')
}

async function cleanSessionDiscards(context, version) {
  const topic = context.topic('queued')
  const publisher = await Peer.connect(context, version)
  const first = await Peer.connect(context, version, persistent(context, version, 'away'))
  await first.subscribe(topic, 1)
  await first.disconnect()
  await publisher.publish(topic, 'lost on purpose', 1)
  const fresh = await Peer.connect(context, version, { clientId: context.clientId('away'), clean: true })
  expect(!fresh.connack.sessionPresent, 'session present after a clean start')
  await fresh.subscribe(context.topic('fence'), 1)
  await publisher.publish(topic, 'not subscribed any more', 1)
  await publisher.publish(context.topic('fence'), 'fence', 1)
  expectEqual(payloads(await fresh.receiveUntil('fence')), [], 'messages of the discarded session')
}

async function redeliveryAfterCut(context, version) {
  const topic = context.topic('redelivered')
  const publisher = await Peer.connect(context, version)
  const careless = await Peer.connect(context, version, persistent(context, version, 'careless'))
  // MQTT.js acknowledges when this function calls back, which it never does.
  careless.client.handleMessage = () => {}
  await careless.subscribe(topic, 1)
  await publisher.publish(topic, 'again', 1)
  const first = await careless.receive()
  expectEqual(first.dup, false, 'DUP of the first delivery')
  await careless.cut()
  const back = await Peer.connect(context, version, persistent(context, version, 'careless'))
  const second = await back.receive()
  expectEqual(
    [second.payload.toString(), second.dup, second.messageId],
    ['again', true, first.messageId],
    '(payload, DUP, packet id) of the second delivery',
  )
}

async function takeover(context, version) {
  const clientId = context.clientId('twice')
  const first = await Peer.connect(context, version, { clientId })
  const closed = first.closed()
  await Peer.connect(context, version, { clientId })
  await closed
  if (version === 5) expectEqual(first.disconnectReason, 0x8e, 'DISCONNECT reason code (session taken over)')
}

export const BOTH_VERSIONS = {
  qos0_roundtrip: roundtrip(0),
  qos1_roundtrip: roundtrip(1),
  qos2_roundtrip: roundtrip(2),
  qos_is_the_lower_of_both: qosIsTheLowerOfBoth,
  wildcards,
  overlapping_subscriptions: overlappingSubscriptions,
  unsubscribe,
  retained_on_subscribe: retainedOnSubscribe,
  retained_replace: retainedReplace,
  retained_delete: retainedDelete,
  will_on_cut: willOnCut,
  will_retained: willRetained,
  no_will_on_disconnect: noWillOnDisconnect,
  shared_subscription: sharedSubscription,
  large_payload: largePayload,
  persistent_session: persistentSession,
  persistent_session_after_cut: persistentSessionAfterCut,
  publishes_while_offline: publishesWhileOffline,
  clean_session_discards: cleanSessionDiscards,
  redelivery_after_cut: redeliveryAfterCut,
  takeover,
}
