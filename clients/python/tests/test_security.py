"""TLS, WebSocket, passwords and wills: options of the native client."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
import threading
import unittest
from pathlib import Path

import tautwire
from support import BROKER, Broker, Relay, WithBroker, soon
from tautwire import Credentials, MqttError, Tls, Will, blocking


class OverTls(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.tls = Path(folder.name)
        for more in ([], ["--client", "sensor-7"]):
            subprocess.run([str(BROKER), "cert", "--dir", str(cls.tls), *more], check=True, capture_output=True)
        settings = [
            f"tls.certificate={cls.tls}/server.pem", f"tls.key={cls.tls}/server.key", f"tls.client_ca={cls.tls}/ca.pem",
            "tls.client_certificates=optional",
        ]  # fmt: skip
        options = [part for setting in settings for part in ("--set", setting)]
        cls.broker = Broker(*options, listen="mqtts://127.0.0.1:0")
        cls.addClassCleanup(cls.broker.stop)

    async def refusal(self, tls: Tls) -> MqttError:
        with self.assertRaises(MqttError) as caught:
            await soon(tautwire.connect(self.broker.address, tls=tls))
        return caught.exception

    async def test_a_certificate_of_a_known_authority(self):
        tls = Tls(ca_file=self.tls / "ca.pem", cert_file=self.tls / "sensor-7.pem", key_file=self.tls / "sensor-7.key")
        async with tautwire.connect(self.broker.address, tls=tls) as client:
            self.assertEqual(await client.publish("a", qos=1), 0x10)

    async def test_an_unknown_authority(self):
        self.assertIn((await self.refusal(Tls())).code, ("tls_unknown_authority", "tls_options"))

    async def test_another_host_name(self):
        error = await self.refusal(Tls(ca_file=self.tls / "ca.pem", server_name="other.example"))
        self.assertEqual(error.code, "tls_name_mismatch")

    async def test_a_missing_file(self):
        error = await self.refusal(Tls(ca_file=self.tls / "none.pem"))
        self.assertEqual(error.code, "tls_options")
        self.assertIn("none.pem", str(error))

    async def test_plain_mqtt_on_a_tls_port(self):
        with self.assertRaises(MqttError) as caught:
            await soon(tautwire.connect(self.broker.address.replace("mqtts:", "mqtt:")))
        self.assertIn(caught.exception.code, ("handshake_failed", "tls_needed"))


class WithPasswords(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        users = Path(folder.name) / "users"
        subprocess.run([str(BROKER), "user", "add", "--file", str(users), "ann"], check=True, capture_output=True, input=b"secret\n")
        cls.broker = Broker("--set", f"auth.password_file={users}")
        cls.addClassCleanup(cls.broker.stop)

    async def test_client_authentication(self):
        address = self.broker.address
        for given in ({"user_name": "ann", "password": "secret"}, {"user_name": "ann", "password": "secret", "scram": "sha256"}):
            async with tautwire.connect(address, **given):
                pass
        async with tautwire.connect(address.replace("//", "//ann:secret@")):
            pass
        with self.assertRaises(MqttError) as caught:
            await soon(tautwire.connect(address, user_name="ann", password="wrong-secret"))
        self.assertEqual((caught.exception.code, caught.exception.reason), ("connection_refused", 0x86))
        self.assertNotIn("secret", str(caught.exception))


    async def test_credentials_are_requested_for_each_attempt(self):
        asked = []

        def by_function() -> Credentials:
            asked.append(threading.current_thread())
            return Credentials("ann", "secret")

        async def by_coroutine() -> Credentials:
            await asyncio.sleep(0)
            asked.append(threading.current_thread())
            return Credentials("ann", b"secret")

        for credentials in (by_function, by_coroutine):
            asked.clear()
            async with Relay(self.broker) as relay:
                options = {"credentials": credentials, "reconnect": (0.01, 0.05)}
                async with tautwire.connect(relay.address, **options) as client:
                    for attempts in (2, 3):
                        relay.cut()
                        self.assertEqual(await soon(client.publish("a", qos=1)), 0x10)
                        self.assertGreaterEqual(len(asked), attempts)
            is_on_loop = asked[0] is threading.current_thread()
            self.assertEqual(is_on_loop, credentials is by_coroutine)
        await asyncio.to_thread(lambda: blocking.connect(self.broker.address, credentials=by_function).close())

    async def test_credentials_that_fail(self):
        address = self.broker.address

        def fail() -> Credentials:
            raise LookupError("no secret is left")

        async def fail_later() -> Credentials:
            raise LookupError("no secret is left")

        for credentials, cause in [(fail, LookupError), (fail_later, LookupError), (lambda: ("ann", "secret"), TypeError)]:
            with self.assertRaises(MqttError) as caught:
                await soon(tautwire.connect(address, credentials=credentials))
            self.assertEqual(caught.exception.code, "callback_failed")
            self.assertIsInstance(caught.exception.__cause__, cause)
            self.assertNotIn("secret", str(caught.exception))
        for credentials, cause in [(fail, LookupError), (fail_later, TypeError)]:
            with self.assertRaises(MqttError) as caught:
                await asyncio.to_thread(blocking.connect, address, credentials=credentials)
            self.assertIsInstance(caught.exception.__cause__, cause)
        with self.assertRaises(MqttError) as caught:
            await soon(tautwire.connect(address, credentials=lambda: Credentials("ann", "wrong-secret")))
        self.assertEqual((caught.exception.code, caught.exception.reason), ("connection_refused", 0x86))

    async def test_failed_credentials_are_requested_again(self):
        answers = iter([LookupError("not yet"), Credentials("ann", "secret")])

        def ask() -> Credentials:
            answer = next(answers)
            if isinstance(answer, Exception):
                raise answer
            return answer

        client = tautwire.start(self.broker.address, credentials=ask, reconnect=(0.01, 0.05))
        seen = []
        async for event in client.events():
            seen.append(event.error.code if event.error else event.kind)
            if event.kind == "connected":
                break
        self.assertEqual(seen[-1], "connected")
        await client.close()


class Doubling:
    """Responds to each challenge with its data twice, and uses its client in the callback."""

    method = "DOUBLE"

    def __init__(self) -> None:
        self.steps: list[object] = []
        self.client: tautwire.Client | None = None

    def begin(self) -> bytes:
        self.steps.append("begin")
        return b"hello"

    def respond(self, data: bytes | None) -> bytes | None:
        self.steps.append(data)
        if self.client is not None:
            # It takes the lock of the native client, which must be free here.
            self.client.counters()
        if data == b"bad":
            raise LookupError("secret")
        if data == b"worse":
            raise MqttError("authentication_failed", "it is worse")
        return None if data is None else data + data

    def finish(self, data: bytes | None) -> None:
        self.steps.append(("finish", data))


def auth_packet(first: int, start: bytes, data: bytes | None) -> bytes:
    """Encodes CONNACK or AUTH with the method and its data."""
    properties = b"\x15\x00\x06DOUBLE" + (b"" if data is None else b"\x16" + len(data).to_bytes(2, "big") + data)
    body = start + bytes([len(properties)]) + properties
    return bytes([first, len(body)]) + body


class Authenticators(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.script: list[tuple[bytes, bytes]] = []
        """Steps of the server: the expected packet and the response."""
        server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.addCleanup(server.close)
        host, port = server.sockets[0].getsockname()
        self.address = f"mqtt://{host}:{port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said = b""
        for wanted, answer in self.script:
            while wanted not in said:
                data = await reader.read(65536)
                if not data:
                    writer.close()
                    return
                said += data
            said = b""
            writer.write(answer)
        await reader.read()
        writer.close()

    CONNACK = auth_packet(0x20, b"\0\0", b"done")

    async def test_authentication_and_reauthentication_on_one_connection(self):
        self.script = [
            (b"\x15\x00\x06DOUBLE\x16\x00\x05hello", auth_packet(0xF0, b"\x18", b"one")),
            (b"oneone", auth_packet(0xF0, b"\x18", None)),
            (b"\x15\x00\x06DOUBLE", self.CONNACK),
            (b"\x19", auth_packet(0xF0, b"\x18", b"two")),
            (b"twotwo", auth_packet(0xF0, b"\x00", b"again")),
        ]
        doubling = Doubling()
        client = await soon(tautwire.connect(self.address, authenticator=doubling))
        self.assertEqual(doubling.steps, ["begin", b"one", None, ("finish", b"done")])
        doubling.client = client
        again = asyncio.ensure_future(client.reauthenticate())
        while not again.done():
            # The event loop keeps running, and uses the client, too.
            client.counters()
            await asyncio.sleep(0)
        await again
        self.assertEqual(doubling.steps[4:], ["begin", b"two", ("finish", b"again")])
        await soon(client.close())

    async def test_authentication_on_a_thread(self):
        self.script = [(b"hello", auth_packet(0xF0, b"\x18", b"one")), (b"oneone", self.CONNACK)]
        doubling = Doubling()
        client = await asyncio.to_thread(blocking.connect, self.address, authenticator=doubling)
        self.assertEqual(doubling.steps, ["begin", b"one", ("finish", b"done")])
        await asyncio.to_thread(client.close)

    async def test_an_authenticator_that_raises(self):
        for challenge, code, cause in [(b"bad", "callback_failed", LookupError), (b"worse", "authentication_failed", None)]:
            self.script = [(b"hello", auth_packet(0xF0, b"\x18", challenge))]
            with self.assertRaises(MqttError) as caught:
                await soon(tautwire.connect(self.address, authenticator=Doubling()))
            self.assertEqual((caught.exception.code, type(caught.exception.__cause__)), (code, cause or type(None)))
            self.assertNotIn("secret", str(caught.exception))

    async def test_an_invalid_authenticator(self):
        class Nameless(Doubling):
            method = None

        for given in ({"authenticator": object()}, {"authenticator": Nameless()}, {"authenticator": Doubling(), "version": 4}):
            with self.assertRaises(MqttError) as caught:
                tautwire.connect("mqtt://h", **given)
            self.assertEqual(caught.exception.code, "invalid_options")


class OverWebSocket(unittest.IsolatedAsyncioTestCase):
    async def test_headers(self):
        requests: asyncio.Queue[bytes] = asyncio.Queue()

        async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            requests.put_nowait(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 403 Forbidden\r\n\r\n")
            writer.close()

        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        self.addCleanup(server.close)
        host, port = server.sockets[0].getsockname()
        for headers in ({"Authorization": "Bearer secret", "X-Plant": "7"}, [("Authorization", "Bearer secret"), ("X-Plant", "7")]):
            with self.assertRaises(MqttError) as caught:
                await soon(tautwire.connect(f"ws://{host}:{port}/mqtt", websocket_headers=headers))
            self.assertEqual(caught.exception.code, "websocket_refused")
            self.assertNotIn("secret", str(caught.exception))
            self.assertIn(b"\r\nAuthorization: Bearer secret\r\nX-Plant: 7\r\n", await soon(requests.get()))
        for headers in ({"Host": "secret"}, {"a": "secret\r\nb: c"}, {"a b": "secret"}):
            with self.assertRaises(MqttError) as caught:
                await soon(tautwire.connect(f"ws://{host}:{port}/mqtt", websocket_headers=headers))
            self.assertEqual(caught.exception.code, "invalid_options")
            self.assertNotIn("secret", str(caught.exception))

    async def test_messages(self):
        broker = Broker(listen="ws://127.0.0.1:0/mqtt")
        self.addCleanup(broker.stop)
        async with tautwire.connect(broker.address) as client, client.subscribe("a", qos=1) as received:
            await client.publish("a", "x", qos=1)
            self.assertEqual((await soon(received.next())).text, "x")


class Wills(WithBroker):
    async def test_a_will_is_published_when_its_client_disappears(self):
        async with tautwire.connect(self.address) as client, client.subscribe(self.topic, qos=1) as received:
            will = Will(self.topic, "gone", qos=1, content_type="text/plain", user_properties={"a": "1"})
            # Taking a session over ends the connection of the first without its DISCONNECT.
            first = await tautwire.connect(self.address, client_id="will", will=will, session_expiry=0)
            async with tautwire.connect(self.address, client_id="will"):
                message = await soon(received.next())
            await first.close()
            self.assertEqual((message.text, message.content_type, message.user_properties), ("gone", "text/plain", [("a", "1")]))


if __name__ == "__main__":
    unittest.main()
