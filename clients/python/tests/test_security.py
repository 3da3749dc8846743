"""TLS, WebSocket, passwords and wills: options that the native client takes."""

import subprocess
import tempfile
import unittest
from pathlib import Path

import tautwire
from support import BROKER, Broker, WithBroker, soon
from tautwire import MqttError, Tls, Will


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

    async def refusal(self, tls: Tls, address: str = "") -> MqttError:
        with self.assertRaises(MqttError) as caught:
            await soon(tautwire.connect(address or self.broker.address, tls=tls))
        return caught.exception

    async def test_a_certificate_of_a_known_authority(self):
        tls = Tls(ca_file=self.tls / "ca.pem", cert_file=self.tls / "sensor-7.pem", key_file=self.tls / "sensor-7.key")
        async with tautwire.connect(self.broker.address, tls=tls) as client:
            self.assertEqual(await client.publish("a", qos=1), 0x10)

    async def test_an_authority_that_is_not_known(self):
        self.assertIn((await self.refusal(Tls())).code, ("tls_unknown_authority", "tls_settings"))

    async def test_another_name(self):
        error = await self.refusal(Tls(ca_file=self.tls / "ca.pem", server_name="other.example"))
        self.assertEqual(error.code, "tls_name_mismatch")

    async def test_a_file_that_is_not_there(self):
        error = await self.refusal(Tls(ca_file=self.tls / "none.pem"))
        self.assertEqual(error.code, "tls_settings")
        self.assertIn("none.pem", str(error))

    async def test_plain_mqtt_at_a_port_of_tls(self):
        error = await self.refusal(Tls(), self.broker.address.replace("mqtts:", "mqtt:"))
        self.assertIn(error.code, ("handshake_failed", "tls_needed"))


class WithPasswords(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls) -> None:
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        users = Path(folder.name) / "users"
        subprocess.run([str(BROKER), "user", "add", "--file", str(users), "ann"], check=True, capture_output=True, input=b"secret\n")
        cls.broker = Broker("--set", f"auth.password_file={users}")
        cls.addClassCleanup(cls.broker.stop)

    async def test_who_may_connect(self):
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


class OverWebSocket(unittest.IsolatedAsyncioTestCase):
    async def test_messages(self):
        broker = Broker(listen="ws://127.0.0.1:0/mqtt")
        self.addCleanup(broker.stop)
        async with tautwire.connect(broker.address) as client, client.subscribe("a", qos=1) as received:
            await client.publish("a", "x", qos=1)
            self.assertEqual((await soon(received.next())).text, "x")


class Wills(WithBroker):
    async def test_a_will_is_published_when_its_client_is_gone_without_a_word(self):
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
