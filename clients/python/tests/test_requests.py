"""Requests and responses, for asyncio and for threads."""

import asyncio
import gc
import threading
import unittest

import tautwire
from support import PATIENCE_S, Relay, WithBroker, free_port, soon
from tautwire import MqttError, ResponseFailure, blocking
from tautwire.requests import GENERIC_FAILURE


class Requests(WithBroker):
    async def test_requests_are_distinguished(self):
        async with tautwire.connect(self.address) as client, tautwire.connect(self.address) as other:
            async with await other.respond("echo/+", lambda request: request.payload):
                payloads = [str(n) for n in range(100)]
                responses = await soon(asyncio.gather(*(client.request(f"echo/{n}", n) for n in payloads)))
                self.assertEqual([response.text for response in responses], payloads)

    async def test_only_deliberate_responder_errors_reach_the_requester(self):
        for error, sentence in [(ResponseFailure("no such lamp"), "no such lamp"), (RuntimeError("secret"), GENERIC_FAILURE)]:
            reported = []
            loop = asyncio.get_running_loop()
            loop.set_exception_handler(lambda _loop, context, to=reported: to.append(context["exception"]))

            async def fail(_request: tautwire.Message, error: Exception = error) -> None:
                raise error

            with self.subTest(sentence):
                async with tautwire.connect(self.address) as client:
                    async with await client.respond(self.topic, fail):
                        with self.assertRaises(MqttError) as caught:
                            await soon(client.request(self.topic))
                self.assertEqual((caught.exception.code, caught.exception.detail), ("request_failed", sentence))
                self.assertEqual(reported, [] if isinstance(error, ResponseFailure) else [error])

    async def test_a_missing_responder(self):
        async with tautwire.connect(self.address) as client:
            with self.assertRaises(MqttError) as caught:
                await soon(client.request(self.topic))
            self.assertEqual((caught.exception.code, caught.exception.reason), ("no_responder", 0x10))

    async def test_a_response_has_the_qos_of_its_request(self):
        async with tautwire.connect(self.address) as client:
            async with await client.respond(self.topic, lambda request: str(request.qos)):
                for qos in (0, 1, 2):
                    response = await soon(client.request(self.topic, qos=qos))
                    self.assertEqual((response.text, response.qos), (str(qos), qos))

    async def test_the_timeout_includes_waiting_for_connection_and_queue(self):
        reported = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: reported.append(context))
        client = tautwire.start(f"mqtt://127.0.0.1:{free_port()}")
        with self.assertRaises(MqttError) as caught:
            await soon(client.request(self.topic, timeout=0.01))
        self.assertEqual(caught.exception.code, "request_timeout")
        await client.close()
        async with Relay(self.broker) as relay:
            client = await tautwire.connect(relay.address, queue_messages=1, reconnect=(PATIENCE_S, PATIENCE_S))
            async with await client.respond(self.topic, lambda request: "yes"):
                await soon(client.request(self.topic))
                events = client.events()
                relay.cut()
                async for event in events:
                    if event.kind == "disconnected":
                        break
                fills_the_queue = await client.enqueue(self.topic, qos=1)
                with self.assertRaises(MqttError) as caught:
                    await soon(client.request(self.topic, timeout=0.01))
                self.assertEqual(caught.exception.code, "request_timeout")
                await soon(client.close())
                self.assertIsInstance(fills_the_queue.exception(), MqttError)
        gc.collect()
        self.assertEqual(reported, [])

    async def test_a_late_response_after_a_timeout(self):
        async with tautwire.connect(self.address) as client:
            requests = await client.subscribe(self.topic)
            timeout, request = 0.01, None
            # The timeout may expire before the request is sent.
            while request is None:
                with self.assertRaises(MqttError) as caught:
                    await soon(client.request(self.topic, timeout=timeout))
                self.assertEqual(caught.exception.code, "request_timeout")
                timeout *= 2
                await client.publish(self.topic, "behind it", qos=1)
                while (message := await soon(requests.next())).text != "behind it":
                    request = message
            answer = {"correlation_data": request.correlation_data, "qos": 1}
            await client.publish(request.response_topic, "late", **answer)
            async with await client.respond(self.topic + "/x", lambda request: b""):
                # Its response follows the late one.
                await soon(client.request(self.topic + "/x"))
            self.assertEqual(client.counters()["late_responses"], 1)

    async def test_the_wire_format(self):
        async with tautwire.connect(self.address) as client:
            requests = await client.subscribe(self.topic, qos=2)
            asking = asyncio.ensure_future(client.request(self.topic, "q"))
            request = await soon(requests.next())
            self.assertRegex(request.response_topic, r"^tautwire/response/\w+$")
            self.assertEqual(request.qos, 1)
            answer = {"correlation_data": request.correlation_data, "user_properties": [("error", "no")]}
            await client.publish(request.response_topic, "", **answer)
            with self.assertRaises(MqttError) as caught:
                await soon(asking)
            self.assertEqual(caught.exception.code, "request_failed")

    async def test_a_request_without_a_response_topic(self):
        async with tautwire.connect(self.address) as client:
            seen = asyncio.Event()
            async with await client.respond(self.topic, lambda request: seen.set()):
                await client.publish(self.topic, qos=1)
                await soon(seen.wait())

    async def test_values_by_codecs(self):
        double = tautwire.Topic("double/{n}", tautwire.JSON)
        async with tautwire.connect(self.address) as client:
            async with await client.respond(double, lambda request: 2 * request.value, codec=tautwire.JSON):
                response = await soon(client.request(double.at(n=1), 21))
            self.assertEqual((response.payload, response.content_type), (b"42", "application/json"))


class OfThreads(WithBroker):
    def test_requests_of_several_threads(self):
        with blocking.connect(self.address) as client, blocking.connect(self.address) as other:
            with other.respond("threads/+", lambda request: request.payload):
                found: dict[int, str] = {}

                def ask(number: int) -> None:
                    found[number] = client.request("threads/x", str(number), timeout=PATIENCE_S).text

                threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join(PATIENCE_S)
                self.assertEqual(found, {number: str(number) for number in range(8)})

    def test_failures(self):
        reported = []
        usual, threading.excepthook = threading.excepthook, lambda told: reported.append(told.exc_type)
        self.addCleanup(setattr, threading, "excepthook", usual)
        with blocking.connect(self.address) as client:
            with self.assertRaises(MqttError) as caught:
                client.request("nobody/here", timeout=PATIENCE_S)
            self.assertEqual(caught.exception.code, "no_responder")
            with client.respond("crash", lambda request: 1 // 0), self.assertRaises(MqttError) as caught:
                client.request("crash", timeout=PATIENCE_S)
            self.assertEqual((caught.exception.detail, reported), (GENERIC_FAILURE, [ZeroDivisionError]))
            with client.subscribe("silent"), self.assertRaises(MqttError) as caught:
                client.request("silent", timeout=0.01)
            self.assertEqual(caught.exception.code, "request_timeout")


if __name__ == "__main__":
    unittest.main()
