"""Messages in a store survive the process that published them and the broker, even if they are killed."""

import asyncio
import os
import random
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import tautwire
from support import PACKAGE, Broker, Patient, Relay, WithBroker, free_port, soon
from publisher import OPEN_AT_A_TIME
from tautwire import FileStore, MqttError, blocking

KILLS = int(os.environ.get("TAUTWIRE_STORE_KILLS", "4"))
"""For a longer run."""
SEED = 1
CONNACK = bytes.fromhex("2003000000")
ACKNOWLEDGED_MAX = 150
"""The maximum number of acknowledged messages between two kills."""


class WithFolder(Patient):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.store = FileStore(self.folder / "session")


class Stores(WithBroker, WithFolder):
    async def test_queued_messages_are_sent_by_the_next_client(self):
        nobody = f"mqtt://127.0.0.1:{free_port()}"
        first = tautwire.start(nobody, store=self.store)
        waiting = [await first.enqueue(self.topic, str(number), qos=1 + number % 2) for number in range(10)]
        await soon(first.close())
        for one in waiting:
            with self.assertRaises(MqttError):
                await one
        async with tautwire.connect(self.address) as witness, witness.subscribe(self.topic, qos=2) as received:
            async with tautwire.connect(self.address, store=self.store) as second:
                self.assertEqual([(await soon(received.next())).text for _ in range(10)], [str(number) for number in range(10)])
                await second.publish(self.topic, "last", qos=2)
            self.assertEqual((await soon(received.next())).text, "last")

    async def test_the_stored_session_has_a_client_identifier(self):
        async with tautwire.connect(self.address, store=self.store) as client:
            first = client.client_id
            self.assertTrue(first)
        async with tautwire.connect(self.address, store=self.store) as client:
            self.assertEqual(client.client_id, first)
            # The server has kept the session, although the client was closed.
            async for event in client.events():
                self.assertTrue(event.session_present)
                break
        with self.assertRaises(MqttError) as caught:
            await soon(tautwire.connect(self.address, store=self.store, client_id="another"))
        self.assertEqual(caught.exception.code, "invalid_options")
        self.assertIn(first, str(caught.exception))

    async def test_an_open_store_is_refused(self):
        async with tautwire.connect(self.address, store=self.store):
            with self.assertRaises(MqttError) as caught:
                await soon(tautwire.connect(self.address, store=self.store))
        self.assertEqual(caught.exception.code, "store_failed")
        self.assertIn("session", str(caught.exception))

    async def test_a_file_that_is_not_a_store_is_refused_and_unchanged(self):
        path = self.folder / "session"
        path.write_text("something of somebody else, longer than the header of a store")
        with self.assertRaises(MqttError) as caught:
            await soon(tautwire.connect(self.address, store=self.store))
        self.assertEqual(caught.exception.code, "store_failed")
        self.assertTrue(path.read_text().startswith("something"))

    async def test_a_store_is_released_after_a_failed_attempt(self):
        nobody = f"mqtt://127.0.0.1:{free_port()}"
        for _ in range(60):
            with self.assertRaises(MqttError) as caught:
                await soon(tautwire.connect(nobody, store=self.store))
            self.assertEqual(caught.exception.code, "unreachable")
            with self.assertRaises(MqttError) as caught:
                await asyncio.to_thread(blocking.connect, nobody, store=self.store)
            self.assertEqual(caught.exception.code, "unreachable")


class InFlight(WithBroker, WithFolder):
    """A publisher is killed when all its messages are sent and none is acknowledged."""

    async def test_messages_of_qos_1_are_sent_by_the_next_client(self):
        sent = asyncio.Event()

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(CONNACK)
            said = b""
            while data := await reader.read(65536):
                said += data
                # A packet is sent when its message is on disk. The zero is the length of its properties: without it, the end of a
                # client identifier may look like the last number.
                if said.endswith(b"\0" + str(OPEN_AT_A_TIME - 1).encode()):
                    sent.set()
            writer.close()

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        publisher = Publisher(f"mqtt://{host}:{port}", self.store.path, self.topic, 1, 0)
        await soon(sent.wait())
        await asyncio.to_thread(publisher.kill, set())
        server.close()
        async with tautwire.connect(self.address) as witness, witness.subscribe(self.topic, qos=1) as received:
            async with tautwire.connect(self.address, store=self.store) as client:
                await soon(client.publish(self.topic, "end", qos=1))
            expected = [*map(str, range(OPEN_AT_A_TIME)), "end"]
            self.assertEqual([(await soon(received.next())).text for _ in expected], expected)

    async def test_messages_of_qos_2_arrive_once(self):
        async with Relay(self.broker) as relay, tautwire.connect(self.address) as witness:
            received = await witness.subscribe(self.topic, qos=2)
            publisher = Publisher(relay.address, self.store.path, self.topic, 2, 0, waits=True)
            await asyncio.to_thread(publisher.began)
            relay.is_mute = True
            publisher.go_on()
            for number in range(OPEN_AT_A_TIME):
                self.assertEqual((await soon(received.next())).text, str(number))
            await asyncio.to_thread(publisher.kill, set())
            async with tautwire.connect(self.address, store=self.store) as client:
                await soon(client.publish(self.topic, "end", qos=2))
            self.assertEqual((await soon(received.next())).text, "end")


class Kills(WithFolder):
    """A publisher in a separate process and the broker are killed repeatedly. A persistent session receives the messages."""

    async def test_a_killed_publisher_at_qos_1(self):
        await self.kill(qos=1, is_broker_killed=False)

    async def test_a_killed_publisher_at_qos_2(self):
        await self.kill(qos=2, is_broker_killed=False)

    async def test_a_killed_broker_at_qos_1(self):
        await self.kill(qos=1, is_broker_killed=True)

    async def test_a_killed_broker_at_qos_2(self):
        await self.kill(qos=2, is_broker_killed=True)

    async def kill(self, qos: int, is_broker_killed: bool) -> None:
        moments = random.Random(SEED)
        broker = Broker(data=self.folder / "data")
        self.addCleanup(lambda: broker.stop())
        acknowledged: set[int] = set()
        arrived: list[int] = []
        async with Relay(broker) as relay:
            witness = {"client_id": "witness", "clean_start": False, "session_expiry": 3600, "reconnect": (0.01, 0.05)}
            async with tautwire.connect(relay.address, **witness) as subscriber:
                received = await subscriber.subscribe("numbers", qos=2)
                receiving = asyncio.ensure_future(receive(received, arrived))
                publisher = Publisher(relay.address, self.store.path, "numbers", qos, 0)
                for round_ in range(KILLS):
                    wanted = len(acknowledged) + moments.randint(1, ACKNOWLEDGED_MAX)
                    await soon(asyncio.to_thread(publisher.read, acknowledged, wanted))
                    if is_broker_killed:
                        broker.kill()
                        broker = Broker(data=self.folder / "data")
                        relay.lead_to(broker)
                        relay.cut()
                    if not is_broker_killed or round_ == KILLS - 1:
                        await asyncio.to_thread(publisher.kill, acknowledged)
                    if not is_broker_killed and round_ < KILLS - 1:
                        publisher = Publisher(relay.address, self.store.path, "numbers", qos, publisher.next)
                async with tautwire.connect(relay.address, store=self.store) as last:
                    await soon(last.publish("numbers", "end", qos=qos))
                await soon(receiving)
        self.assertGreater(len(acknowledged), KILLS)
        self.assertEqual(acknowledged - set(arrived), set(), "acknowledged, and did not arrive")
        if qos == 2:
            self.assertEqual(len(arrived), len(set(arrived)), "arrived twice")


async def receive(messages: tautwire.Subscription[tautwire.Message], arrived: list[int]) -> None:
    async for message in messages:
        if message.text == "end":
            return
        arrived.append(int(message.text))


class Publisher:
    """Runs publisher.py and reads its output."""

    def __init__(self, address: str, store: Path, topic: str, qos: int, first: int, *, waits: bool = False) -> None:
        command = [sys.executable, "-B", str(PACKAGE / "tests/publisher.py"), address, str(store), topic, str(qos), str(first)]
        standard_input = subprocess.PIPE if waits else subprocess.DEVNULL
        self._process = subprocess.Popen(command, stdin=standard_input, stdout=subprocess.PIPE, text=True)
        self.next = first

    def began(self) -> None:
        """Waits until it is connected."""
        assert self._process.stdout is not None
        if self._process.stdout.readline() != "connected\n":
            raise AssertionError("the publisher has ended")

    def go_on(self) -> None:
        """Lets it publish, if it waits for that."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.stdin = None

    def read(self, acknowledged: set[int], wanted: int) -> None:
        """Reads its output until this many messages are acknowledged."""
        assert self._process.stdout is not None
        while len(acknowledged) < wanted:
            line = self._process.stdout.readline()
            if not line:
                raise AssertionError("the publisher has ended")
            self._note(line, acknowledged)

    def kill(self, acknowledged: set[int]) -> None:
        """Kills it, and reads its remaining output."""
        self._process.kill()
        said, _ = self._process.communicate()
        # The last line may be incomplete.
        for line in said.splitlines(keepends=True):
            if line.endswith("\n"):
                self._note(line, acknowledged)

    def _note(self, line: str, acknowledged: set[int]) -> None:
        what, _, number = line.partition(" ")
        if what == "publishing":
            self.next = int(number) + 1
        elif what == "acknowledged":
            acknowledged.add(int(number))


if __name__ == "__main__":
    unittest.main()
