"""When and where a bridge connects: lazy, scheduled, several addresses, wrong credentials, TLS and WebSocket."""

from __future__ import annotations

import datetime
import socket
import ssl
import subprocess
import threading
import unittest
from pathlib import Path

from brokers import PROGRAM, Bridge, Tautwire, until
from stage import Stage, received

RULES = '{ filter = "up/#", direction = "out", qos = 2 }, { filter = "down/#", direction = "in", qos = 2 }'
DAY_MINUTES = 24 * 60


def certificate(folder: Path, *names: str) -> Path:
    """Makes a certificate and its authority."""
    subprocess.run([PROGRAM, "cert", "--dir", str(folder), *names], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return folder


def period(from_minutes: int, to_minutes: int) -> str:
    """A period of the day, in minutes from now."""
    now = datetime.datetime.now(datetime.timezone.utc)
    at = [(now.hour * 60 + now.minute + minutes) % DAY_MINUTES for minutes in (from_minutes, to_minutes)]
    return "-".join(f"{minutes // 60:02}:{minutes % 60:02}" for minutes in at)


class Start(Stage):
    def test_a_lazy_bridge_connects_for_messages_and_disconnects_without_them(self) -> None:
        other = self.started(Tautwire(self.folder / "other"))
        there = self.observer(other, "#")
        ours = self.ours(RULES, other, more='start = "lazy"\nidle_timeout_s = 1\n')
        publisher = self.client(ours, "publisher")
        for times in (1, 2):
            until("it stays connected", lambda: ours.log().count("the bridge is disconnected") >= times)
            publisher.deliver("up/x", b"%d" % times, qos=2)
            self.assertEqual(there.receive().payload, b"%d" % times)
            ours.await_connected(times=times + 1)

    def test_a_scheduled_bridge_connects_at_its_times(self) -> None:
        other = self.started(Tautwire(self.folder / "other"))
        there = self.observer(other, "#")
        now = period(-60, 60)
        ours = self.ours(RULES, other, more=f'start = "scheduled"\nschedule = ["{now}"]\n')
        ours.bridges[0].more = f'start = "scheduled"\nschedule = ["{period(60, 120)}"]\n'
        ours.reload()
        self.client(ours, "publisher").deliver("up/x", b"waits", qos=2)
        self.assertEqual(ours.connections(), 1)
        ours.bridges[0].more = f'start = "scheduled"\nschedule = ["{now}"]\n'
        ours.reload()
        self.assertEqual(there.receive().payload, b"waits")

    def test_the_next_address_is_tried_and_the_first_one_preferred(self) -> None:
        first, second = (self.started(Tautwire(self.folder / name)) for name in ("first", "second"))
        first.relay.refuse()
        ours = self.ours(RULES, first, second)
        self.client(ours, "publisher").deliver("up/x", b"1", qos=1)
        self.assertTrue(self.has_bridge(second) and not self.has_bridge(first))
        first.relay.forward(first.port)
        second.relay.cut()
        ours.await_connected(times=2)
        until("the first address is not preferred", lambda: self.has_bridge(first))

    def test_round_robin_uses_one_address_after_the_other(self) -> None:
        first, second = (self.started(Tautwire(self.folder / name)) for name in ("first", "second"))
        ours = self.ours(RULES, first, second, more='address_order = "round_robin"\n')
        self.assertTrue(self.has_bridge(first))
        first.relay.cut()
        ours.await_connected(times=2)
        self.assertTrue(self.has_bridge(second))

    def has_bridge(self, broker: Tautwire) -> bool:
        clients = broker.ask("GET", "/v1/clients")[1]["clients"]
        return any(client["client_id"].endswith("-hq") and client["connected"] for client in clients)

    def test_a_wrong_password_is_reported_and_a_right_one_works_after_a_reload(self) -> None:
        other = Tautwire(self.folder / "other", top="", settings='[auth]\npassword_file = "users"\nanonymous = false\n')
        self.use(other)
        add = [PROGRAM, "user", "add", "--file", str(other.folder / "users"), "bridge"]
        subprocess.run(add, check=True, env={"TAUTWIRE_PASSWORD": "right"}, stdout=subprocess.DEVNULL)
        other.start()
        folder = self.folder / "ours"
        folder.mkdir()
        (folder / "password").write_text("not this one\n")
        (folder / "password").chmod(0o600)
        ours = self.ours(RULES, other, more='user_name = "bridge"\npassword_file = "password"\n', is_started=False)
        ours.start()
        line = ours.await_log("the bridge is not connected")
        self.assertIn("code=refused", line)
        self.assertNotIn("not this one", ours.log())
        (folder / "password").write_text("right\n")
        ours.reload()
        ours.await_connected()

    def secure(self, scheme: str, *names: str) -> tuple[Tautwire, str]:
        made = certificate(self.folder / "certificates", *names)
        settings = f'[tls]\ncertificate = "{made / "server.pem"}"\nkey = "{made / "server.key"}"\n'
        other = self.use(Tautwire(self.folder / "other", settings=settings, listeners=("127.0.0.1:0", f"{scheme}://127.0.0.1:0")))
        other.start()
        assert other.served
        other.relay.forward(other.served.ports[scheme][0])
        return other, f'tls.ca = "{made / "ca.pem"}"\n'

    def test_tls_and_websocket(self) -> None:
        for scheme in ("mqtts", "wss"):
            with self.subTest(scheme):
                self.folder = self.folder / scheme
                other, tls = self.secure(scheme)
                there = self.observer(other, "#")
                ours = self.use(Tautwire(self.folder / "ours", [Bridge([f"{scheme}://localhost:{other.relay.port}"], RULES, more=tls)]))
                ours.start()
                ours.await_connected()
                publisher = self.client(ours, "publisher")
                for payload in (b"small", bytes(200_000)):
                    publisher.deliver("up/x", payload, qos=2)
                self.assertEqual([len(message.payload) for message in received(there, 2)], [5, 200_000])

    def test_a_certificate_for_another_name_is_refused(self) -> None:
        other, tls = self.secure("mqtts")
        bridge = Bridge([f"mqtts://localhost:{other.relay.port}"], RULES, more=tls + 'tls.server_name = "elsewhere.example"\n')
        ours = self.use(Tautwire(self.folder / "ours", [bridge]))
        ours.start()
        line = ours.await_log("the bridge is not connected")
        self.assertIn("certificate", line)
        self.assertEqual(ours.connections(), 0)
        bridge.more = tls
        ours.reload()
        ours.await_connected()

    def test_the_server_sees_alpn_and_the_server_name(self) -> None:
        made = certificate(self.folder / "certificates")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(made / "server.pem", made / "server.key")
        context.set_alpn_protocols(["x-amzn-mqtt-ca"])
        seen: list[str | None] = []
        context.sni_callback = lambda _, name, __: seen.append(name)
        done = threading.Event()
        listener = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(listener.close)

        def serve() -> None:
            with listener.accept()[0] as plain, context.wrap_socket(plain, server_side=True) as secure:
                seen.extend([secure.selected_alpn_protocol(), secure.recv(1000)[4:8].decode()])
            done.set()

        threading.Thread(target=serve, daemon=True).start()
        more = f'tls.ca = "{made / "ca.pem"}"\ntls.server_name = "localhost"\ntls.alpn = ["x-amzn-mqtt-ca"]\n'
        ours = self.use(Tautwire(self.folder / "ours", [Bridge([f"mqtts://127.0.0.1:{listener.getsockname()[1]}"], RULES, more=more)]))
        ours.start()
        self.assertTrue(done.wait(30), ours.log())
        self.assertEqual(seen, ["localhost", "x-amzn-mqtt-ca", "MQTT"])


if __name__ == "__main__":
    unittest.main()
