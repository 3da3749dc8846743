"""Subscriptions of sessions that outlive their client."""

import asyncio
import contextlib
import unittest

import tautwire
from support import PATIENCE_S, Relay, WithBroker, soon
from tautwire import MqttError, blocking

NO_MATCHING_SUBSCRIBERS = 0x10


class LastingSessions(WithBroker):
    def lasting(self) -> dict[str, object]:
        return {"client_id": f"lasting-{abs(hash(self.id()))}", "clean_start": False, "session_expiry": 600}

    async def test_a_cancelled_consumer_receives_missed_messages_later(self):
        texts: list[str] = []
        # In a plain loop, and in a loop within a block.
        for has_block in (False, True):
            for number in range(3):
                arrived = asyncio.Event()
                consumer = asyncio.ensure_future(self.consume(texts, arrived, has_block))
                async with tautwire.connect(self.address) as publisher:
                    if not texts:
                        while await publisher.publish(self.topic, "first", qos=1) == NO_MATCHING_SUBSCRIBERS:
                            self.assertFalse(consumer.done())
                    await soon(arrived.wait())
                    consumer.cancel()
                    with contextlib.suppress(asyncio.CancelledError):
                        await soon(consumer)
                    self.assertEqual(await publisher.publish(self.topic, f"{has_block} {number}", qos=1), 0)
        self.assertEqual(list(dict.fromkeys(texts))[1:], ["False 0", "False 1", "False 2", "True 0", "True 1"])

    async def consume(self, texts: list[str], arrived: asyncio.Event, has_block: bool) -> None:
        async with tautwire.connect(self.address, **self.lasting()) as client:
            subscription = client.subscribe(self.topic, qos=1)
            async with contextlib.AsyncExitStack() as block:
                if has_block:
                    await block.enter_async_context(subscription)
                async for message in subscription:
                    texts.append(message.text)
                    arrived.set()

    async def test_fetched_unhandled_messages_go_to_the_next_loop(self):
        async with tautwire.connect(self.address, receive_maximum=3, **self.lasting()) as client:
            received = await client.subscribe(self.topic, qos=1)
            sending = [await client.enqueue(self.topic, str(number), qos=1) for number in range(6)]
            texts = []
            while len(texts) < 6:
                async for message in received:
                    texts.append(message.text)
                    received.acknowledge(message)
                    break
                received = await client.subscribe(self.topic, qos=1)
            self.assertEqual(texts, [str(number) for number in range(6)])
            await soon(asyncio.gather(*sending))

    async def test_the_message_on_which_a_loop_fails_goes_to_the_next_loop(self):
        async with tautwire.connect(self.address, **self.lasting()) as client:
            for qos in (1, 2):
                received = await client.subscribe(self.topic, qos=qos)
                sending = [await client.enqueue(self.topic, str(number), qos=qos) for number in range(3)]
                with self.assertRaisesRegex(RuntimeError, "on 0"):
                    async for message in received:
                        raise RuntimeError(f"on {message.text}")
                texts = []
                async with client.subscribe(self.topic, qos=qos) as again:
                    while len(texts) < 3:
                        texts.append((await again.next(timeout=60)).text)
                self.assertEqual(texts, ["0", "1", "2"])
                await soon(asyncio.gather(*sending))

    async def test_unsubscribing_reaches_the_server(self):
        async with tautwire.connect(self.address, **self.lasting()) as client:
            received = await client.subscribe(self.topic, qos=1)
            await soon(received.unsubscribe())
            self.assertEqual(await client.publish(self.topic, qos=1), NO_MATCHING_SUBSCRIBERS)

    async def test_responders_and_requests_leave_nothing_on_the_server(self):
        topics = []
        async with tautwire.connect(self.address, **self.lasting()) as client:
            async with await client.respond(self.topic, lambda request: topics.append(request.response_topic)):
                await soon(client.request(self.topic))
            self.assertEqual(await client.publish(self.topic, qos=1), NO_MATCHING_SUBSCRIBERS)
        async with tautwire.connect(self.address) as client:
            self.assertEqual(await client.publish(topics[0], qos=1), NO_MATCHING_SUBSCRIBERS)

    def test_sessions_on_threads(self):
        for number in range(3):
            with blocking.connect(self.address, **self.lasting()) as client, client.subscribe(self.topic, qos=1) as received:
                if number > 0:
                    self.assertEqual(received.next(timeout=PATIENCE_S).text, f"{number - 1}")
            with blocking.connect(self.address) as publisher:
                self.assertEqual(publisher.publish(self.topic, str(number), qos=1), 0)
        with blocking.connect(self.address, **self.lasting()) as client:
            received = client.subscribe(self.topic, qos=1)
            received.unsubscribe()
            self.assertEqual(client.publish(self.topic, qos=1), NO_MATCHING_SUBSCRIBERS)
            client.respond(self.topic, lambda request: request.response_topic or "").granted
            response_topic = client.request(self.topic, timeout=PATIENCE_S).text
        with blocking.connect(self.address) as client:
            self.assertEqual(client.publish(response_topic, qos=1), NO_MATCHING_SUBSCRIBERS)

    async def test_an_error_does_not_wait_for_an_unreachable_server(self):
        async with Relay(self.broker) as relay:
            client = await tautwire.connect(relay.address, reconnect=(9 * PATIENCE_S, 9 * PATIENCE_S))
            with contextlib.suppress(ZeroDivisionError):
                async with client.subscribe(self.topic), await client.respond(self.topic + "/x", str):
                    await self.cut(relay, client)
                    1 // 0
            await soon(client.close())
            await soon(asyncio.to_thread(self.fail_in_a_thread, relay, asyncio.get_running_loop()))

    def fail_in_a_thread(self, relay: Relay, loop: asyncio.AbstractEventLoop) -> None:
        client = blocking.connect(relay.address, reconnect=(9 * PATIENCE_S, 9 * PATIENCE_S))
        with contextlib.suppress(ZeroDivisionError):
            other = client.subscribe(self.topic + "/y")
            with client.subscribe(self.topic), client.respond(self.topic + "/x", str):
                events = client.events()
                loop.call_soon_threadsafe(relay.cut)
                while next(events).kind != "disconnected":
                    pass
                with self.assertRaises(TimeoutError):
                    other.unsubscribe(timeout=0.01)
                1 // 0
        client.close()

    async def cut(self, relay: Relay, client: tautwire.Client) -> None:
        events = client.events()
        relay.cut()
        async for event in events:
            if event.kind == "disconnected":
                return

    async def test_a_loop_over_an_ended_subscription_raises(self):
        async with tautwire.connect(self.address) as client:
            received = await client.subscribe(self.topic, qos=1)
            await client.publish(self.topic, qos=1)
            async for _message in received:
                break
            with self.assertRaises(MqttError) as caught:
                async for _message in received:
                    self.fail("it has ended")
            self.assertEqual(caught.exception.code, "unsubscribed")


if __name__ == "__main__":
    unittest.main()
