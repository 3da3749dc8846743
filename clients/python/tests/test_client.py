"""The client for asyncio with the broker."""

import asyncio
import gc
import os
import unittest
import warnings
from unittest import mock

import tautwire
from support import PATIENCE_S, Relay, WithBroker, deaf_port, free_port, soon
from tautwire import MqttError, Topic
from tautwire import client as client_module
from tautwire import subscription as subscription_module
from tautwire._bridge import Bridge

NO_MATCHING_SUBSCRIBERS = 0x10
TOPIC_FILTER_INVALID = 0x8F


class Messages(WithBroker):
    async def test_messages_of_each_qos_arrive_in_order(self):
        async with tautwire.connect(self.address) as client:
            received = await client.subscribe(self.topic, qos=2)
            self.assertEqual(received.granted, {self.topic: 2})
            for qos in (0, 1, 2):
                self.assertEqual(await client.publish(self.topic, f"at {qos}", qos=qos), 0)
                message = await soon(received.next())
                self.assertEqual((message.text, message.qos, message.topic), (f"at {qos}", qos, self.topic))

    async def test_a_flood_arrives_completely_and_in_order(self):
        count = 2000
        async with tautwire.connect(self.address) as client:
            received = await client.subscribe(self.topic, qos=1)
            publishing = asyncio.gather(*(client.publish(self.topic, str(n), qos=1) for n in range(count)))

            async def receive() -> list[int]:
                numbers = []
                async for message in received:
                    numbers.append(int(message.payload))
                    if len(numbers) == count:
                        break
                return numbers

            self.assertEqual(await soon(receive()), list(range(count)))
            self.assertEqual(await soon(publishing), [0] * count)

    async def test_leaving_a_loop_ends_the_subscription(self):
        async with tautwire.connect(self.address) as client:
            subscription = await client.subscribe(self.topic, qos=1)
            self.assertEqual(await client.publish(self.topic, "one", qos=1), 0)
            async for message in subscription:
                self.assertEqual(message.text, "one")
                break
            self.assertEqual(await client.publish(self.topic, "two", qos=1), NO_MATCHING_SUBSCRIBERS)

    async def test_leaving_a_block_ends_the_subscription(self):
        async with tautwire.connect(self.address) as client:
            async with client.subscribe([self.topic, self.topic + "/more"], qos=1) as received:
                await client.publish(self.topic + "/more", "x", qos=1)
                self.assertEqual((await soon(received.next())).topic, self.topic + "/more")
            self.assertEqual(await client.publish(self.topic, "y", qos=1), NO_MATCHING_SUBSCRIBERS)
            with self.assertRaises(MqttError) as caught:
                await received.next()
            self.assertEqual(caught.exception.code, "unsubscribed")

    async def test_a_subscription_ends_with_its_last_reference(self):
        async with tautwire.connect(self.address) as client:
            received = await client.subscribe(self.topic, qos=1)
            for number in range(3):
                await client.publish(self.topic, str(number), qos=1)
            await soon(received.next())
            del received
            gc.collect()
            self.assertEqual(await client.publish(self.topic, "y", qos=1), NO_MATCHING_SUBSCRIBERS)

    async def test_waiters_are_notified_when_their_subscription_ends(self):
        async with tautwire.connect(self.address) as client:
            received = await client.subscribe(self.topic)
            waiting = asyncio.ensure_future(received.next())
            await asyncio.sleep(0)
            await soon(received.unsubscribe())
            with self.assertRaises(MqttError):
                await soon(waiting)

    async def test_a_loop_ends_when_the_client_is_closed(self):
        client = await tautwire.connect(self.address)
        subscription = await client.subscribe(self.topic)

        async def all_of_them() -> int:
            return len([message async for message in subscription])

        task = asyncio.ensure_future(all_of_them())
        await asyncio.sleep(0)
        await client.close()
        self.assertEqual(await soon(task), 0)
        with self.assertRaises(MqttError) as caught:
            await client.publish(self.topic)
        self.assertEqual(caught.exception.code, "closed")
        await client.close()

    async def test_a_message_is_acknowledged_when_the_next_is_requested(self):
        # The server may send one message at a time.
        async with tautwire.connect(self.address, receive_maximum=1) as client:
            received = await client.subscribe(self.topic, qos=1)
            await client.publish(self.topic, "one", qos=1)
            await client.publish(self.topic, "two", qos=1)
            self.assertEqual((await soon(received.next())).text, "one")
            self.assertEqual((await soon(received.next())).text, "two")

    async def test_acknowledgements_wake_the_connection_once_per_turn(self):
        bridge = Bridge(asyncio.get_running_loop())
        core = mock.Mock()
        for message in ("one", "two", "three"):
            bridge.acknowledge(core, message)
        # If the program blocks the loop now, only the first acknowledgement waits.
        self.assertEqual(core.mock_calls, [mock.call.acknowledge_with_next("one"), mock.call.acknowledge("two"), mock.call.acknowledge("three")])
        await asyncio.sleep(0)
        self.assertEqual(core.mock_calls[3:], [mock.call.flush()])
        bridge.acknowledge(core, "four")
        bridge.flush()
        await asyncio.sleep(0)
        self.assertEqual(core.mock_calls[4:], [mock.call.acknowledge_with_next("four"), mock.call.flush()])
        bridge.stop()

    async def test_a_busy_stream_yields_to_other_tasks(self):
        async with tautwire.connect(self.address) as client:
            received = await client.subscribe(self.topic, qos=1)
            turns = 0

            async def other() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            task = asyncio.ensure_future(other())
            await client.publish(self.topic, "first", qos=1)
            with mock.patch.object(subscription_module, "BATCH", 1), mock.patch.object(subscription_module, "TURN_S", 0.0):
                for _ in range(3):
                    # The server sends the message before its acknowledgement, so it has arrived.
                    await client.publish(self.topic, "next", qos=1)
                    before = turns
                    await received.next()
                    self.assertGreater(turns, before)
            task.cancel()

    async def test_a_message_consumed_by_another_task_is_awaited_again(self):
        async with tautwire.connect(self.address) as client:
            received = await client.subscribe(self.topic, qos=1)
            with mock.patch.object(subscription_module, "TURN_S", -1.0):
                await client.publish(self.topic, "one", qos=1)
                first = asyncio.ensure_future(received.next())
                # It takes the message and yields to other tasks.
                await asyncio.sleep(0)
                self.assertEqual((await received.next()).text, "one")
                await asyncio.sleep(0)
                self.assertFalse(first.done())
                await client.publish(self.topic, "two", qos=1)
                self.assertEqual((await soon(first)).text, "two")

    async def test_a_waiting_task_does_not_acknowledge_another_tasks_message(self):
        async with tautwire.connect(self.address, receive_maximum=1) as client:
            received = await client.subscribe(self.topic, qos=1)
            with mock.patch.object(subscription_module, "TURN_S", -1.0):
                await client.publish(self.topic, "one", qos=1)
                first = asyncio.ensure_future(received.next())
                await asyncio.sleep(0)
                self.assertEqual((await received.next()).text, "one")
                await client.publish(self.topic, "two", qos=1)
                # The response follows any message that the server would have sent.
                await client.publish(self.topic + "/other", qos=1)
                await asyncio.sleep(0)
                self.assertFalse(first.done())
                second = asyncio.ensure_future(received.next())
                self.assertEqual((await soon(first)).text, "two")
                second.cancel()

    async def test_manual_acknowledgements(self):
        async with tautwire.connect(self.address, receive_maximum=1) as client:
            received = await client.subscribe(self.topic, qos=1, manual_acknowledgement=True)
            await client.publish(self.topic, "one", qos=1)
            await client.publish(self.topic, "two", qos=1)
            first = await soon(received.next())
            waiting = asyncio.ensure_future(received.next())
            await asyncio.sleep(0)
            # The response follows any message that the server would have sent.
            await client.publish(self.topic + "/other", qos=1)
            await asyncio.sleep(0)
            self.assertFalse(waiting.done())
            received.acknowledge(first)
            self.assertEqual((await soon(waiting)).text, "two")

    async def test_payloads_and_properties(self):
        async with tautwire.connect(self.address) as client:
            received = await client.subscribe(self.topic)
            await client.publish(
                self.topic, memoryview(b"\x00\xff"), expiry=60, content_type="x/y", response_topic="back",
                correlation_data=b"7", user_properties=[("a", "1"), ("a", "2")],
            )  # fmt: skip
            message = await soon(received.next())
            self.assertEqual(message.payload, b"\x00\xff")
            self.assertEqual((message.content_type, message.response_topic), ("x/y", "back"))
            self.assertEqual((message.correlation_data, message.user_properties), (b"7", [("a", "1"), ("a", "2")]))
            self.assertLessEqual(message.expiry, 60)
            with self.assertRaises(MqttError) as caught:
                message.text  # noqa: B018
            self.assertEqual(caught.exception.code, "payload_invalid")
            self.assertNotIn("ff", repr(message))

    async def test_a_refused_subscription(self):
        async with tautwire.connect(self.address) as client:
            for filters in ("a/#/b", [], 7):
                with self.subTest(filters), self.assertRaises(MqttError) as caught:
                    await client.subscribe(filters)
                self.assertEqual(caught.exception.code, "invalid_argument")

    async def test_a_subscription_with_a_refused_filter_fails(self):
        for lasts in ({}, {"client_id": "lasts", "clean_start": False, "session_expiry": 60}):
            async with tautwire.connect(self.address, **lasts) as client:
                with self.assertRaises(MqttError) as raised:
                    await client.subscribe([self.topic, "a/" * 1000])
                self.assertEqual((raised.exception.code, raised.exception.reason), ("subscribe_refused", TOPIC_FILTER_INVALID))
                self.assertEqual(await client.publish(self.topic, qos=1), NO_MATCHING_SUBSCRIBERS)

    async def test_invalid_messages_are_refused(self):
        async with tautwire.connect(self.address) as client:
            for topic, payload, qos in [("a/+", b"", 0), ("a", {}, 0), ("a", b"", 3), ("a", b"", 300), (Topic("a", tautwire.JSON), 1, 0)]:
                with self.subTest((topic, payload, qos)), self.assertRaises(MqttError):
                    await client.publish(topic, payload, qos=qos)

    async def test_typed_topics(self):
        reading = Topic("test/typed/{id}/reading", tautwire.json())
        async with tautwire.connect(self.address) as client:
            received = await client.subscribe(reading, qos=1)
            await client.publish(reading.at(id=7), {"celsius": 21.5}, qos=1)
            await client.publish("test/typed/8/reading", "no JSON", qos=1)
            first = await soon(received.next())
            self.assertEqual((first.params, first.value), ({"id": "7"}, {"celsius": 21.5}))
            self.assertEqual((first.message.content_type, first.message.is_text), ("application/json", True))
            second = await soon(received.next())
            with self.assertRaises(MqttError) as caught:
                second.value  # noqa: B018
            self.assertEqual(caught.exception.code, "payload_invalid")
            self.assertIsInstance(caught.exception.__cause__, ValueError)

    async def test_311(self):
        async with tautwire.connect(self.address, version=4) as client:
            async with client.subscribe(self.topic, qos=1) as received:
                await client.publish(self.topic, "x", qos=1)
                self.assertEqual((await soon(received.next())).text, "x")
            with self.assertRaises(MqttError) as caught:
                await client.request(self.topic)
            self.assertEqual(caught.exception.code, "not_supported")

    async def test_cancelling_loses_nothing(self):
        async with tautwire.connect(self.address) as client:
            received = await client.subscribe(self.topic, qos=1)
            with self.assertRaises(asyncio.TimeoutError):
                await received.next(timeout=0.001)
            await client.publish(self.topic, "x", qos=1)
            self.assertEqual((await soon(received.next())).text, "x")


class Connections(WithBroker):
    async def test_a_closed_port(self):
        with self.assertRaises(MqttError) as caught:
            await soon(tautwire.connect(f"mqtt://127.0.0.1:{free_port()}"))
        self.assertEqual(caught.exception.code, "unreachable")
        self.assertRegex(
            str(caught.exception),
            r"^cannot connect to the server: .* \(127.0.0.1:\d+: .*\) \[unreachable\]$",
        )

    async def test_an_unknown_host_name(self):
        with self.assertRaises(MqttError) as caught:
            await soon(tautwire.connect("mqtt://a..b"))
        self.assertEqual(caught.exception.code, "name_not_found")

    async def test_a_port_without_mqtt(self):
        async def hang_up(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.close()

        server = await asyncio.start_server(hang_up, "127.0.0.1", 0)
        async with server:
            with self.assertRaises(MqttError) as caught:
                await soon(tautwire.connect(f"mqtt://127.0.0.1:{server.sockets[0].getsockname()[1]}"))
        self.assertEqual(caught.exception.code, "handshake_failed")

    async def test_a_silent_server(self):
        async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
        async with server:
            address = f"mqtt://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            with self.assertRaises(MqttError) as caught:
                await soon(tautwire.connect(address, connect_timeout=0.05))
        self.assertEqual(caught.exception.code, "connect_timeout")

    async def test_events_start_at_the_call(self):
        pause_s = 9 * PATIENCE_S
        async with Relay(self.broker) as relay, tautwire.connect(relay.address, reconnect=(pause_s, pause_s)) as client:
            events, others = client.events(), client.events()
            relay.cut()
            for each in (others, events):
                kinds = [(await soon(each.__anext__())).kind for _ in range(2)]
                self.assertEqual(kinds, ["connected", "disconnected"])

    async def test_lost_connections_are_reestablished(self):
        async with Relay(self.broker) as relay, tautwire.connect(relay.address, reconnect=(0.01, 0.05)) as client:
            kinds = []

            async def follow() -> None:
                async for event in client.events():
                    kinds.append((event.kind, event.session_present))

            following = asyncio.ensure_future(follow())
            received = await client.subscribe(self.topic, qos=2)
            for number in range(3):
                self.assertEqual(await soon(client.publish(self.topic, str(number), qos=2)), 0)
                self.assertEqual((await soon(received.next())).text, str(number))
                relay.cut()
            await soon(client.connected())
            await client.close()
            await soon(following)
            # On a busy machine intermediate states may be skipped.
            self.assertEqual(kinds[0], ("connected", False))
            self.assertIn(("connected", True), kinds)
            self.assertEqual(kinds[-1], ("ended", False))

    async def test_start_keeps_retrying(self):
        client = tautwire.start(f"mqtt://127.0.0.1:{free_port()}", reconnect=(0.001, 0.001))
        failed = 0
        async for event in client.events():
            self.assertEqual((event.kind, event.error.code), ("attempt_failed", "unreachable"))
            failed += 1
            if failed == 3:
                break
        await client.close()

    async def test_publish_waits_for_queue_space(self):
        client = tautwire.start(f"mqtt://127.0.0.1:{free_port()}", queue_messages=2)
        taken = [await client.enqueue(self.topic, qos=1) for _ in range(2)]
        waiting = asyncio.ensure_future(client.enqueue(self.topic, qos=1))
        await asyncio.sleep(0)
        self.assertFalse(waiting.done())
        self.assertGreater(client.counters()["refused_full"], 0)
        await client.close()
        for future in [*taken, waiting]:
            with self.assertRaises(MqttError) as caught:
                await soon(future)
            # An attempt that was in progress may have failed first.
            self.assertIn(caught.exception.code, ("closed", "unreachable"))

    async def test_closing_does_not_wait_for_an_unanswered_attempt(self):
        with deaf_port() as port, mock.patch.object(client_module, "CLOSE_TIMEOUT", 0.05):
            client = tautwire.start(f"mqtt://127.0.0.1:{port}", connect_timeout=2 * PATIENCE_S)
            waiting = asyncio.ensure_future(client.publish(self.topic, qos=1))
            await asyncio.sleep(0)
            await soon(client.close())
            with self.assertRaises(MqttError) as caught:
                await soon(waiting)
            self.assertEqual(caught.exception.code, "closed")

    async def test_a_session_takeover_ends_the_loop_with_its_reason(self):
        first = await tautwire.connect(self.address, client_id="same")
        received = await first.subscribe(self.topic)
        waiting = asyncio.ensure_future(received.next())
        async with tautwire.connect(self.address, client_id="same"):
            with self.assertRaises(MqttError) as caught:
                await soon(waiting)
        self.assertEqual((caught.exception.code, caught.exception.reason), ("session_taken_over", 0x8E))
        await first.close()

    async def test_an_event_loop_without_file_descriptors(self):
        loop = asyncio.get_running_loop()
        with mock.patch.object(loop, "add_reader", side_effect=NotImplementedError):
            client = await soon(tautwire.connect(self.address))
        async with client, client.subscribe(self.topic, qos=1) as received:
            for number in range(3):
                await soon(client.publish(self.topic, str(number), qos=1))
                self.assertEqual((await soon(received.next())).text, str(number))

    async def test_an_unclosed_client_warns(self):
        client = await tautwire.connect(self.address)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            del client
            gc.collect()
        self.assertIn("not closed", str(told[0].message))

    @unittest.skipUnless(os.path.isdir("/proc/self/fd"), "this system does not list what is open")
    async def test_an_unclosed_client_leaves_nothing_open(self):
        before = len(os.listdir("/proc/self/fd"))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(10):
                client = await tautwire.connect(self.address)
                bridge = client._bridge
                del client
                gc.collect()
                while not bridge.is_stopped:
                    await asyncio.sleep(0)
                del bridge
            gc.collect()
        # The last connections may still be closing.
        self.assertLess(len(os.listdir("/proc/self/fd")), before + 10)

    async def test_closing_a_client_ends_all_waits(self):
        with deaf_port() as port, mock.patch.object(client_module, "CLOSE_TIMEOUT", 0.05):
            client = tautwire.start(f"mqtt://127.0.0.1:{port}", connect_timeout=2 * PATIENCE_S)
            await soon(client.close())
            # The attempt without a response is still in progress.
            for waiting in (client.connected(), client.publish(self.topic, qos=1), client.subscribe(self.topic).next()):
                with self.assertRaises(MqttError) as caught:
                    await soon(waiting)
                self.assertEqual(caught.exception.code, "closed")


if __name__ == "__main__":
    unittest.main()
