"""A real Mosquitto is filled and stopped, its state is imported by `tautwire import mosquitto`, and its clients connect to
Tautwire."""

from __future__ import annotations

import getpass
import os
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "mqtt"))

from client import Client  # noqa: E402
from served import PROGRAM, Served  # noqa: E402
from wire import PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, Packet  # noqa: E402

MOSQUITTO = shutil.which("mosquitto", path=os.environ.get("PATH", "") + ":/usr/sbin")
TIMEOUT_S = 60
WAITING = 40
"""More than Mosquitto has in flight to a client."""
NO_LOCAL, AS_PUBLISHED, NO_RETAINED = 0x04, 0x08, 0x20
# Content Type, User Property, Response Topic, Correlation Data; and Message Expiry Interval, which counts down.
DESCRIBED = b"\x03\x00\x0atext/plain\x26\x00\x01k\x00\x01v\x08\x00\x06answer\x09\x00\x02\x00\xff"
EXPIRY_S = 100_000


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Mosquitto:
    """A broker that persists its state in a folder."""

    def __init__(self, folder: Path, port: int, mounted_port: int) -> None:
        self.configuration = folder / "mosquitto.conf"
        self.configuration.write_text(
            f"user {getpass.getuser()}\nlistener {port} 127.0.0.1\nallow_anonymous true\n"
            f"listener {mounted_port} 127.0.0.1\nmount_point site/\n"
            f"persistence true\npersistence_location {folder}/\nmax_queued_messages 10000\n"
        )
        self.process = subprocess.Popen(
            [str(MOSQUITTO), "-c", str(self.configuration)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
        )
        assert self.process.stderr is not None
        said = []
        for line in self.process.stderr:
            said.append(line)
            if re.search(r"mosquitto version .* running", line):
                return
        raise AssertionError("".join(said))

    def stop(self) -> None:
        self.process.terminate()
        self.process.communicate(timeout=TIMEOUT_S)


def imported(configuration: Path) -> Served:
    """A broker with an imported configuration, on ports of its own."""
    configuration.write_text(re.sub(r"(mqtt://127\.0\.0\.1):\d+", r"\1:0", configuration.read_text()))
    return Served(configuration, 2)


def kept(port: int, client_id: str, version: int = 5, *, expiry_s: int = 3600, **more: object) -> Client:
    """A client with a persistent session."""
    return Client(port, client_id, version=version, clean=False, expiry_s=expiry_s, **more)


def said(packet: Packet) -> tuple[int, int]:
    return packet.type, packet.packet_id


def run(*arguments: str) -> str:
    done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stderr
    return done.stdout


@unittest.skipUnless(MOSQUITTO or os.environ.get("TAUTWIRE_REQUIRED"), "mosquitto is missing (Debian: sudo apt-get install mosquitto)")
class Moving(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.temporary = tempfile.TemporaryDirectory(prefix="tautwire-moving-")
        cls.addClassCleanup(cls.temporary.cleanup)
        folder = Path(cls.temporary.name)
        port, mounted_port = free_port(), free_port()
        old = Mosquitto(folder, port, mounted_port)
        try:
            fill(port, mounted_port)
        finally:
            old.stop()
        cls.told = run(
            "import", "mosquitto", "--dir", str(folder), "--data", str(folder / "data"), str(old.configuration)
        )
        cls.checked = run("data", "check", "--data", str(folder / "data"))
        new = imported(folder / "tautwire.toml")
        cls.addClassCleanup(new.close)
        cls.port, cls.mounted_port = new.ports["mqtt"]

    def resume(self, client_id: str, version: int) -> Client:
        client = kept(self.port, client_id, version)
        self.addCleanup(client.cut)
        self.assertTrue(client.session_present)
        return client

    def expect_nothing_more(self, client: Client, topic: str) -> None:
        """The next message is one that is published now."""
        with_marker = Client(self.port, "marker")
        with_marker.deliver(topic, b"marker", qos=1)
        with_marker.close()
        self.assertEqual(client.receive().payload, b"marker")

    def test_the_report_lists_the_imported_state(self) -> None:
        for line in (
            r"\n +5 sessions\n",
            r"\n +6 subscriptions\n",
            r"\n +1 QoS 2 message received and not released\n",
            r"\n +6 messages in flight\n",
            r"\n +3 retained messages\n",
        ):
            self.assertRegex(self.told, line)
        self.assertRegex(self.checked, r"5 sessions and 3 retained messages")

    def test_a_3_1_1_session_gets_queued_messages_once_in_order(self) -> None:
        client = self.resume("old", 4)
        got = [client.receive() for _ in range(WAITING)]
        self.assertEqual([packet.payload for packet in got], [b"%d" % number for number in range(WAITING)])
        self.assertEqual([packet.qos for packet in got], [1 + number % 2 for number in range(WAITING)])
        # What its publisher had not released when Mosquitto was stopped.
        self.assertEqual(client.receive().payload, b"held")
        client.close()
        client = self.resume("old", 4)
        self.expect_nothing_more(client, "a/marker")

    def test_a_session_of_5_0_has_its_options_and_identifiers(self) -> None:
        client = self.resume("new", 5)
        waited = client.receive()
        self.assertEqual((waited.topic, waited.payload, waited.retain), ("n/described", b"described", True))
        properties = waited.properties
        self.assertIn(b"\x0b\x07", properties)
        self.assertIn(DESCRIBED, properties)
        (left_s,) = struct.unpack(">I", properties[properties.index(b"\x02") + 1 :][:4])
        self.assertTrue(EXPIRY_S - 600 < left_s <= EXPIRY_S, left_s)
        client.deliver("n/own", b"mine", qos=1, packet_id=9)
        self.expect_nothing_more(client, "n/marker")

    def test_a_session_of_a_mount_point_is_imported_there(self) -> None:
        client = kept(self.mounted_port, "mounted")
        self.addCleanup(client.cut)
        self.assertTrue(client.session_present)
        got = client.receive()
        self.assertEqual((got.topic, got.payload), ("door", b"open"))

    def test_messages_in_flight_continue(self) -> None:
        client = self.resume("half", 5)
        first, *others = [client.read() for _ in range(6)]
        self.assertEqual([packet.type for packet in (first, *others)], [PUBREL, *[PUBLISH] * 5])
        again = [client.parsed(packet) for packet in others]
        self.assertEqual([first.packet_id, *[message.packet_id for message in again]], HALF_IDS)
        self.assertEqual([message.payload for message in again], [b"half-%d" % number for number in range(1, 6)])
        self.assertTrue(all(message.duplicate for message in again))
        client.acknowledge(PUBCOMP, first.packet_id)
        for message in again:
            if message.qos == 1:
                client.acknowledge(PUBACK, message.packet_id)
                continue
            client.acknowledge(PUBREC, message.packet_id)
            self.assertEqual(said(client.read()), (PUBREL, message.packet_id))
            client.acknowledge(PUBCOMP, message.packet_id)
        client.ping()
        client.close()
        client = self.resume("half", 5)
        self.expect_nothing_more(client, "h/marker")

    def test_an_unreleased_message_is_not_published_again(self) -> None:
        watcher = Client(self.port, "watcher")
        self.addCleanup(watcher.cut)
        watcher.subscribe("a/held", 2 | NO_RETAINED)
        watcher.subscribe("w/marker", 1)
        client = self.resume("sender", 5)
        client.publish("a/held", b"held", qos=2, packet_id=40, duplicate=True)
        self.assertEqual(said(client.read()), (PUBREC, 40))
        client.acknowledge(PUBREL, 40)
        self.assertEqual(said(client.read()), (PUBCOMP, 40))
        self.expect_nothing_more(watcher, "w/marker")

    def test_retained_messages_are_imported_with_their_properties(self) -> None:
        client = Client(self.port, "reader")
        self.addCleanup(client.cut)
        client.subscribe("r/#", 2)
        got = {packet.topic: packet for packet in (client.receive(), client.receive())}
        self.assertEqual((got["r/plain"].payload, got["r/plain"].qos), (b"plain", 2))
        self.assertTrue(got["r/plain"].retain and got["r/described"].retain)
        self.assertIn(DESCRIBED, got["r/described"].properties)

    def test_a_session_without_expiry_is_not_imported(self) -> None:
        client = kept(self.port, "ends", expiry_s=0)
        self.addCleanup(client.cut)
        self.assertFalse(client.session_present)


HALF_IDS: list[int] = []


def fill(port: int, mounted_port: int) -> None:
    """Creates everything that a Mosquitto can have persisted."""
    mounted = kept(mounted_port, "mounted")
    mounted.subscribe("door", 1)
    mounted.cut()
    for client_id, version, expiry_s in (("old", 4, 0), ("new", 5, 3600), ("half", 5, 3600), ("ends", 5, 0)):
        client = kept(port, client_id, version, expiry_s=expiry_s)
        if client_id == "old":
            client.subscribe("a/#", 2)
        if client_id == "new":
            client.subscribe("n/#", 1 | NO_LOCAL | AS_PUBLISHED | NO_RETAINED, identifier=7)
            client.subscribe("m/+", 2)
        if client_id == "half":
            client.subscribe("h/marker", 1)
            client.subscribe("h/+", 2)
        client.close()
    sender = kept(port, "sender")
    for number in range(WAITING):
        sender.deliver(f"a/{number}", b"%d" % number, qos=1 + number % 2)
    sender.deliver("site/door", b"open", qos=1)
    described = {"properties": DESCRIBED + b"\x02" + struct.pack(">I", EXPIRY_S), "retain": True}
    sender.deliver("n/described", b"described", qos=1, **described)
    sender.deliver("r/described", b"described", qos=1, **described)
    sender.deliver("r/plain", b"plain", qos=2, retain=True)
    half = kept(port, "half")
    for number in range(6):
        sender.deliver(f"h/{number}", b"half-%d" % number, qos=2 if number < 4 else 1)
    HALF_IDS[:] = [half.parsed(half.read()).packet_id for _ in range(6)]
    half.acknowledge(PUBREC, HALF_IDS[0])
    assert said(half.read()) == (PUBREL, HALF_IDS[0])
    sender.publish("a/held", b"held", qos=2, packet_id=40)
    assert said(sender.read()) == (PUBREC, 40)
    half.cut()
    sender.cut()


if __name__ == "__main__":
    unittest.main()
