"""Contracts: payloads that grow in another format, discovery, and changes of many contracts."""

from __future__ import annotations

import signal

import messages
import peer
import wire
from arena import MIB, Arena, case
from peer import Peer, drive

NAME = "VALUE_" + "N" * 27
ENUMERATION = f"""syntax = "proto3";
package acme;

enum Long {{
  {NAME}0 = 0;
  {NAME}1 = 1;
}}

message Many {{
  repeated Long values = 1;
}}
"""
GROWING = {
    "many.proto": ENUMERATION,
    "contracts.toml": """
[[contract]]
name = "many"
topics = "many/#"
format = ["protobuf", "json", "messagepack"]
schema = "many.proto"
on_violation = "reject"
""",
}
SMALL_BYTES = 200
CONTENT_TYPE = b"\x03" + wire.text("application/x-protobuf")


def packed(count: int) -> bytes:
    """A payload of `count` values of one byte each; in JSON each has about 37 characters."""
    return b"\x0a" + wire.variable(count) + b"\x01" * count


def publish_packed(client: Peer, count: int, packet_id: int) -> None:
    client.send(wire.publish("many/t", packed(count), qos=1, packet_id=packet_id, properties=CONTENT_TYPE))


def growing(arena: Arena, format_level: str, count: int, repeated: int, sessions: int = 1) -> None:
    """The first payloads may arrive untranscoded or as a notification; a small one after them must arrive."""
    subscribers = []
    for number in range(sessions):
        client = peer.connected(arena.port, f"subscriber-{number}", receive_maximum=1)
        subscribers.append(peer.subscribed(client, [f"$as/{format_level}/many/#"]))
    came: list[bytes] = []

    def reader(client: Peer) -> None:
        def read(taken: wire.Packet) -> None:
            if taken.type == wire.PUBLISH:
                got = wire.parse_publish(taken, 5)
                client.send(wire.acknowledge(wire.PUBACK, got.packet_id))
                came.append(got.payload)

        client.handler = read

    for client in subscribers:
        reader(client)
    publisher = peer.connected(arena.port, "publisher")
    arena.begin()
    for number in range(repeated):
        publish_packed(publisher, count, number + 1)
    publish_packed(publisher, 3, repeated + 1)

    def small_ones() -> int:
        return sum(1 for payload in came if 0 < len(payload) < SMALL_BYTES)

    drive([publisher, *subscribers], lambda: small_ones() >= sessions, 60, 20.0)
    arena.expect(small_ones() == sessions, "a small message did not arrive after those that grow")
    arena.note(f"the largest received payload has {max(map(len, came), default=0) // 1000} kB")


@case("12 MiB of packed enumerations for a subscriber to JSON, in which they are 37 times as large", limit_mib=64, short=True,
      contracts=GROWING)
def transcoding_to_json(arena: Arena) -> None:
    growing(arena, "json", 12 * MIB, repeated=2)


@case("12 MiB of packed enumerations for a subscriber to MessagePack", limit_mib=64, contracts=GROWING)
def transcoding_to_messagepack(arena: Arena) -> None:
    growing(arena, "msgpack", 12 * MIB, repeated=2)


@case("twenty payloads of 100 KB that become 3.7 MB of JSON", limit_mib=1024, timed=True, contracts=GROWING)
def transcoding_time(arena: Arena) -> None:
    growing(arena, "json", 100_000, repeated=20)


@case("200 retained payloads of 100 KB that become too large in JSON, requested in JSON", limit_mib=1024, timed=True, contracts=GROWING)
def transcoding_of_retained(arena: Arena) -> None:
    publisher = peer.connected(arena.port, "publisher")
    for number in range(200):
        publisher.send(wire.publish(f"many/{number}", packed(100_000), retain=True, properties=CONTENT_TYPE))
        publisher.settle()
    publisher.send(wire.publish("last", b"last", retain=True))
    publisher.settle()
    client = peer.connected(arena.port, "subscriber")
    arena.begin()
    told = [0]

    def count(taken: wire.Packet) -> None:
        told[0] += taken.type == wire.PUBLISH

    client.handler = count
    client.send(wire.subscribe(["$as/json/many/#"], qos=0))
    drive([client], lambda: told[0] >= 200 or client.closed, 60)
    arena.expect(told[0] == 200, f"{told[0]} of 200 retained messages have arrived or been reported")


CONTRACTS = 1_000


def many_contracts(policy: str) -> str:
    return "".join(
        f'[[contract]]\nname = "c{number}"\ntopics = "c{number}/#"\nformat = ["protobuf", "json"]\nschema = "many.proto"\n'
        f'on_violation = "{policy}"\n\n'
        for number in range(CONTRACTS)
    )


THOUSAND = {"many.proto": ENUMERATION, "contracts.toml": many_contracts("observe")}


@case("a client requests 100 of 1,000 contracts with their schemas 300 times", limit_mib=1024, timed=True, short=True, contracts=THOUSAND)
def discovery(arena: Arena) -> None:
    ask_for_contracts(arena, "$SYS/contracts/request", b'{"schemas": true}', "$SYS/contracts/response")


@case("a client requests all of 1,000 contracts 300 times, as ProtoMQ's clients do", limit_mib=1024, timed=True, contracts=THOUSAND)
def service_discovery(arena: Arena) -> None:
    ask_for_contracts(arena, "$SYS/discovery/request", b"", "$SYS/discovery/response")


def ask_for_contracts(arena: Arena, topic: str, request: bytes, answer: str) -> None:
    client = peer.connected(arena.port, "asker")
    arena.begin()
    client.send(wire.publish(topic, request) * 300)
    answers = []

    def read(taken: wire.Packet) -> None:
        if taken.type == wire.PUBLISH and wire.parse_publish(taken, 5).topic == answer:
            answers.append(len(taken.body))
        elif taken.type == wire.PINGRESP:
            client.packets.append(taken)

    client.handler = read
    client.send(wire.PING)
    drive([client], lambda: bool(client.packets) or client.closed, 60)
    arena.note(f"{len(answers)} answers, the largest of {max(answers, default=0)} bytes")
    arena.expect(bool(answers), "no request was answered")


@case("1,000 contracts change at once, five times", limit_mib=1024, timed=True, short=True, contracts=THOUSAND)
def contract_changes(arena: Arena) -> None:
    client = peer.subscribed(peer.connected(arena.port, "watcher"), ["$SYS/contracts/index.json"], qos=0)
    client.expect(wire.PUBLISH)
    arena.begin()
    for change in range(5):
        policy = "observe" if change % 2 else "reject"
        (arena.contracts / "contracts.toml").write_text(many_contracts(policy))
        arena.broker.signal(signal.SIGHUP)
        said = wire.parse_publish(client.expect(wire.PUBLISH), 5)
        arena.expect(said.topic == "$SYS/contracts/index.json", f"{said.topic} came")
    client.settle()
    messages.stranger_is_served(arena, "after contracts have changed")


@case("transcoded messages wait for an offline session: their transcoded size is counted", limit_mib=8,
      contracts=GROWING, settings={"limits.session_queue_bytes": 1 << 40})
def transcoded_queue(arena: Arena) -> None:
    peer.absent_session(arena.port, "absent", ["$as/json/many/#"])
    publisher = peer.connected(arena.port, "publisher")
    taken: set[int] = set()
    for number in range(1, 101):
        publish_packed(publisher, 30_000, number)
        answer = publisher.expect(wire.PUBACK)
        if answer.reason < wire.FIRST_ERROR:
            taken.add(number)
    back = Peer(arena.port)
    back.send(wire.connect("absent", clean=False, expiry_s=wire.FOR_EVER_S))
    came: list[int] = []

    def read(packet: wire.Packet) -> None:
        if packet.type == wire.PUBLISH:
            got = wire.parse_publish(packet, 5)
            came.append(len(got.payload))
            back.send(wire.acknowledge(wire.PUBACK, got.packet_id))

    back.handler = read
    drive([back], lambda: len(came) >= len(taken), peer.ANSWER_TIMEOUT_S, messages.SILENCE_S)
    arena.expect(len(came) >= len(taken), f"{len(taken)} messages were acknowledged, {len(came)} have arrived")
