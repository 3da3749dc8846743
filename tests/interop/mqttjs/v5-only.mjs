// Cases that need MQTT 5.0.

import { persistent } from './both-versions.mjs'
import { Peer, expect, expectEqual, letPass, payloads } from './harness.mjs'

const SUCCESS_OR_NO_MATCHING_SUBSCRIBERS = [0x00, 0x10]

const will = (topic, properties) => ({ will: { topic, payload: Buffer.from('gone'), qos: 1, retain: false, properties } })

async function userProperties(context) {
  const topic = context.topic('properties')
  const subscriber = await Peer.connect(context, 5)
  const publisher = await Peer.connect(context, 5)
  await subscriber.subscribe(topic, 2)
  const sent = {
    userProperties: { b: ['2', '2'], a: '1', ключ: 'значение' },
    contentType: 'text/plain',
    payloadFormatIndicator: true,
  }
  for (const qos of [0, 1, 2]) {
    await publisher.publish(topic, 'text', qos, { properties: sent })
    const { properties } = await subscriber.receive()
    expectEqual({ ...properties, userProperties: { ...properties.userProperties } }, sent, 'properties')
  }
}

async function requestResponse(context) {
  const [requests, responses] = [context.topic('requests'), context.topic('responses')]
  const asker = await Peer.connect(context, 5)
  const answerer = await Peer.connect(context, 5)
  await answerer.subscribe(requests, 1)
  await asker.subscribe(responses, 1)
  const correlationData = Buffer.from([0, 1, 254, 255])
  await asker.publish(requests, '6 * 7', 1, { properties: { responseTopic: responses, correlationData } })
  const request = (await answerer.receive()).properties
  expectEqual(request.responseTopic, responses, 'response topic')
  await answerer.publish(request.responseTopic, '42', 1, { properties: { correlationData: request.correlationData } })
  const response = await asker.receive()
  expectEqual([response.payload.toString(), response.properties.correlationData], ['42', correlationData], 'response')
}

async function messageExpiry(context) {
  const [topic, gone] = [context.topic('expiring'), context.topic('gone')]
  const publisher = await Peer.connect(context, 5)
  const watcher = await Peer.connect(context, 5)
  await watcher.subscribe(gone, 1)
  const away = await Peer.connect(context, 5, persistent(context, 5, 'away', will(gone)))
  await away.subscribe(topic, 1)
  await away.cut()
  // The will shows that the client is offline: from here on messages are queued, not sent.
  await watcher.receive()
  await publisher.publish(topic, 'short-lived', 1, { properties: { messageExpiryInterval: 1 } })
  await publisher.publish(topic, 'long-lived', 1, { properties: { messageExpiryInterval: 60 } })
  await publisher.publish(topic, 'fence', 1)
  await letPass(2200)
  const back = await Peer.connect(context, 5, persistent(context, 5, 'away'))
  const received = await back.receiveUntil('fence')
  expectEqual(payloads(received), ['long-lived'], 'messages left')
  const left = received[0].properties.messageExpiryInterval
  expect(left >= 50 && left <= 58, `the expiry interval was not counted down: ${left} of 60 s after 2.2 s`)
}

async function topicAlias(context) {
  const topics = [context.topic('alias/one'), context.topic('alias/two')]
  const subscriber = await Peer.connect(context, 5)
  // MQTT.js assigns aliases itself and sends them instead of the topic from the second message on.
  const publisher = await Peer.connect(context, 5, { autoAssignTopicAlias: true })
  expect(publisher.connack.properties.topicAliasMaximum >= 2, 'the broker accepts fewer than two topic aliases')
  await subscriber.subscribe(context.topic('alias/+'), 1)
  const sent = []
  for (let round = 0; round < 3; round += 1) {
    for (const topic of topics) {
      await publisher.publish(topic, `round ${round}`, 1)
      sent.push([topic, `round ${round}`])
    }
  }
  const received = await subscriber.receiveMany(sent.length)
  expectEqual(received.map((message) => [message.topic, message.payload.toString()]), sent, 'messages')
}

async function topicAliasToClient(context) {
  const topics = [context.topic('alias/one'), context.topic('alias/two'), context.topic('alias/three')]
  // The broker may use up to two aliases; with three topics it must not exceed that.
  const subscriber = await Peer.connect(context, 5, { properties: { topicAliasMaximum: 2 } })
  const publisher = await Peer.connect(context, 5)
  await subscriber.subscribe(context.topic('alias/+'), 1)
  const sent = []
  for (let round = 0; round < 10; round += 1) {
    for (const topic of topics) {
      await publisher.publish(topic, `round ${round}`, 1)
      sent.push([topic, `round ${round}`])
    }
  }
  const received = await subscriber.receiveMany(sent.length)
  expectEqual(received.map((message) => [message.topic, message.payload.toString()]), sent, 'messages')
}

async function subscriptionIdentifiers(context) {
  const subscriber = await Peer.connect(context, 5)
  const publisher = await Peer.connect(context, 5)
  await subscriber.subscribe(context.topic('a/+'), 1, { properties: { subscriptionIdentifier: 7 } })
  await subscriber.subscribe(context.topic('a/#'), 1, { properties: { subscriptionIdentifier: 268_435_455 } })
  await publisher.publish(context.topic('a/b'), 'both', 1)
  await publisher.publish(context.topic('a/b'), 'fence', 1)
  const copies = await subscriber.receiveUntil('fence')
  const identifiers = copies.map((message) => [message.properties.subscriptionIdentifier].flat().sort((a, b) => a - b))
  expectEqual(identifiers, [[7, 268_435_455]], 'identifiers of each copy')
}

async function reasonCodes(context) {
  const peer = await Peer.connect(context, 5)
  const requests = { [context.topic('2')]: { qos: 2 }, [context.topic('0')]: { qos: 0 }, [context.topic('1')]: { qos: 1 } }
  expectEqual(await peer.subscribe(requests), [2, 0, 1], 'SUBACK reason codes')
  const unsuback = await peer.unsubscribe([context.topic('1'), context.topic('never')])
  expectEqual([...unsuback.granted], [0x00, 0x11], 'UNSUBACK reason codes')
  for (const qos of [1, 2]) {
    const acknowledgement = await peer.publish(context.topic('nobody'), 'to nobody', qos)
    expect(
      SUCCESS_OR_NO_MATCHING_SUBSCRIBERS.includes(acknowledgement.reasonCode ?? 0),
      `reason code of a QoS ${qos} publish: ${acknowledgement.reasonCode}`,
    )
  }
}

async function assignedClientId(context) {
  const first = await Peer.connect(context, 5, { clientId: '' })
  const second = await Peer.connect(context, 5, { clientId: '' })
  const [one, two] = [first, second].map((peer) => peer.connack.properties.assignedClientIdentifier)
  expect(one && two, 'an assigned client identifier is empty')
  expect(one !== two, 'two clients were assigned the same identifier')
}

async function sessionExpiry(context) {
  const options = persistent(context, 5, 'expiring')
  const first = await Peer.connect(context, 5, options)
  await first.disconnect()
  const second = await Peer.connect(context, 5, options)
  expect(second.connack.sessionPresent, 'no session present within its expiry interval')
  await second.disconnect({ properties: { sessionExpiryInterval: 0 } })
  const third = await Peer.connect(context, 5, { ...options, properties: { sessionExpiryInterval: 1 } })
  expect(!third.connack.sessionPresent, 'session present after DISCONNECT ended it')
  await third.cut()
  await letPass(2500)
  const fourth = await Peer.connect(context, 5, options)
  expect(!fourth.connack.sessionPresent, 'session present after its expiry interval')
}

async function willDelay(context) {
  const topic = context.topic('will')
  const watcher = await Peer.connect(context, 5)
  await watcher.subscribe(topic, 1)
  const dying = await Peer.connect(context, 5, persistent(context, 5, 'dying', will(topic, { willDelayInterval: 1 })))
  const started = performance.now()
  await dying.cut()
  expectEqual((await watcher.receive()).payload.toString(), 'gone', 'will')
  expect(performance.now() - started >= 900, 'the will came before its delay of 1 s was over')
}

async function willProperties(context) {
  const topic = context.topic('will')
  const watcher = await Peer.connect(context, 5)
  await watcher.subscribe(topic, 1)
  const dying = await Peer.connect(context, 5, will(topic, {
    contentType: 'text/plain', responseTopic: 'answer/here', userProperties: { cause: 'test' },
  }))
  await dying.cut()
  const { properties } = await watcher.receive()
  expectEqual(
    [properties.contentType, properties.responseTopic, { ...properties.userProperties }],
    ['text/plain', 'answer/here', { cause: 'test' }],
    'will properties',
  )
}

async function disconnectWithWill(context) {
  const topic = context.topic('will')
  const watcher = await Peer.connect(context, 5)
  await watcher.subscribe(topic, 1)
  const leaving = await Peer.connect(context, 5, will(topic))
  await leaving.disconnect({ reasonCode: 0x04 })
  expectEqual((await watcher.receive()).payload.toString(), 'gone', 'will')
}

async function noLocal(context) {
  const topic = context.topic('local')
  const peer = await Peer.connect(context, 5)
  const other = await Peer.connect(context, 5)
  await peer.subscribe(topic, 1, { nl: true })
  await peer.publish(topic, 'own', 1)
  await other.publish(topic, 'fence', 1)
  expectEqual(payloads(await peer.receiveUntil('fence')), [], 'own messages')
}

async function retainAsPublished(context) {
  const topic = context.topic('retained')
  const kept = await Peer.connect(context, 5)
  const cleared = await Peer.connect(context, 5)
  const publisher = await Peer.connect(context, 5)
  await kept.subscribe(topic, 1, { rap: true })
  await cleared.subscribe(topic, 1, { rap: false })
  for (const retain of [true, false]) {
    await publisher.publish(topic, 'value', 1, { retain })
    expectEqual([(await kept.receive()).retain, (await cleared.receive()).retain], [retain, false], 'RETAIN flags')
  }
}

async function retainHandling(context) {
  const topic = context.topic('retained')
  const publisher = await Peer.connect(context, 5)
  await publisher.publish(topic, 'value', 1, { retain: true })
  // The retained messages after a first and a second SUBSCRIBE with each Retain Handling.
  const want = [[['value'], ['value']], [['value'], []], [[], []]]
  for (const rh of [0, 1, 2]) {
    const subscriber = await Peer.connect(context, 5)
    const brought = []
    for (let attempt = 0; attempt < 2; attempt += 1) {
      await subscriber.subscribe(topic, 1, { rh })
      await publisher.publish(topic, 'fence', 1)
      brought.push(payloads(await subscriber.receiveUntil('fence')))
    }
    expectEqual(brought, want[rh], `retained messages with Retain Handling ${rh}`)
  }
}

async function receiveMaximum(context) {
  const topic = context.topic('flow')
  const subscriber = await Peer.connect(context, 5, { properties: { receiveMaximum: 1 } })
  const publisher = await Peer.connect(context, 5)
  await subscriber.subscribe(topic, 2)
  const sent = Array.from({ length: 50 }, (_, number) => String(number))
  await publisher.publishAll(sent.map((payload) => [topic, payload]), 2)
  expectEqual(payloads(await subscriber.receiveMany(sent.length)), sent, 'payloads, one at a time')
}

export const V5_ONLY = {
  user_properties: userProperties,
  request_response: requestResponse,
  message_expiry: messageExpiry,
  topic_alias: topicAlias,
  topic_alias_to_client: topicAliasToClient,
  subscription_identifiers: subscriptionIdentifiers,
  reason_codes: reasonCodes,
  assigned_client_id: assignedClientId,
  session_expiry: sessionExpiry,
  will_delay: willDelay,
  will_properties: willProperties,
  disconnect_with_will: disconnectWithWill,
  no_local: noLocal,
  retain_as_published: retainAsPublished,
  retain_handling: retainHandling,
  receive_maximum_one: receiveMaximum,
}
