"""Runs the benchmark of one library: `libraries.py NAME HOST PORT`. Commands are `trips N` and `flood N`; results are seconds."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
import time
from typing import Any, Protocol

PAYLOAD_BYTES = 16
AT_ONCE = 100
"""The number of messages of a flood that are published concurrently."""
QOS = 1


class Library(Protocol):
    async def trips(self, count: int) -> None: ...
    async def flood(self, count: int) -> None:
        """Not supported by the bare socket."""


def payload(number: int) -> bytes:
    return f"{number:0{PAYLOAD_BYTES}}".encode()


class Tautwire:
    def __init__(self, host: str, port: int) -> None:
        self.address = f"mqtt://{host}:{port}"

    async def __aenter__(self) -> Tautwire:
        import tautwire

        self.client = await tautwire.connect(self.address)
        self.topic = "bench/tautwire"
        self.messages = await self.client.subscribe(self.topic, qos=QOS)
        return self

    async def __aexit__(self, *_raised: object) -> None:
        await self.client.close()

    async def trips(self, count: int) -> None:
        for number in range(count):
            await self.client.publish(self.topic, payload(number), qos=QOS)
            check(number, (await self.messages.next()).payload)

    async def flood(self, count: int) -> None:
        async def receive() -> None:
            for number in range(count):
                check(number, (await self.messages.next()).payload)

        receiving = asyncio.ensure_future(receive())
        for start in range(0, count, AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, count))
            await asyncio.gather(*(self.client.publish(self.topic, payload(n), qos=QOS) for n in numbers))
        await receiving


class Aiomqtt:
    def __init__(self, host: str, port: int) -> None:
        import aiomqtt

        self.client = aiomqtt.Client(
            host,
            port,
            keepalive=0,
            max_inflight_messages=AT_ONCE,
            max_queued_incoming_messages=0,
            max_queued_outgoing_messages=0,
            socket_options=[(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)],
        )
        # Otherwise it warns about more than ten concurrent calls.
        self.client.pending_calls_threshold = AT_ONCE + 1
        self.topic = "bench/aiomqtt"

    async def __aenter__(self) -> Aiomqtt:
        await self.client.__aenter__()
        await self.client.subscribe(self.topic, QOS)
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self.client.__aexit__(*raised)

    async def trips(self, count: int) -> None:
        for number in range(count):
            await self.client.publish(self.topic, payload(number), QOS)
            check(number, (await anext(self.client.messages)).payload)

    async def flood(self, count: int) -> None:
        async def receive() -> None:
            for number in range(count):
                check(number, (await anext(self.client.messages)).payload)

        receiving = asyncio.ensure_future(receive())
        for start in range(0, count, AT_ONCE):
            numbers = range(start, min(start + AT_ONCE, count))
            await asyncio.gather(*(self.client.publish(self.topic, payload(n), QOS, timeout=60) for n in numbers))
        await receiving


class Paho:
    """Runs with its own thread, as most programs use it."""

    def __init__(self, host: str, port: int) -> None:
        import paho.mqtt.client as mqtt

        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2)
        self.client.max_inflight_messages_set(AT_ONCE)
        self.client.on_socket_open = lambda _client, _user, opened: opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client.on_message = self.on_message
        self.topic = "bench/paho"
        self.wanted = 0
        self.next = 0
        self.all_came = threading.Event()
        subscribed = threading.Event()
        self.client.on_subscribe = lambda *_arguments: subscribed.set()
        self.client.on_connect = lambda *_arguments: self.client.subscribe(self.topic, QOS)
        self.client.connect(host, port, keepalive=0)
        self.client.loop_start()
        subscribed.wait()

    def on_message(self, _client: Any, _user: object, message: Any) -> None:
        check(self.next, message.payload)
        self.next += 1
        if self.next == self.wanted:
            self.all_came.set()

    def expect(self, count: int) -> None:
        self.next, self.wanted = 0, count
        self.all_came.clear()

    async def __aenter__(self) -> Paho:
        return self

    async def __aexit__(self, *_raised: object) -> None:
        self.client.loop_stop()

    async def trips(self, count: int) -> None:
        for number in range(count):
            self.expect(number + 1)
            self.next = number
            self.client.publish(self.topic, payload(number), QOS).wait_for_publish()
            self.all_came.wait()

    async def flood(self, count: int) -> None:
        self.expect(count)
        sent = [self.client.publish(self.topic, payload(number), QOS) for number in range(count)]
        for one in sent:
            one.wait_for_publish()
        self.all_came.wait()


class Raw:
    """No client: a socket on an event loop, with prepared bytes. Its rate is the maximum that the path through the broker
    and back allows."""

    def __init__(self, host: str, port: int) -> None:
        topic = b"bench/raw"
        self.publish = bytes([0x32, 2 + len(topic) + 2 + PAYLOAD_BYTES]) + text(topic)
        # Received for each message: the message and its acknowledgement.
        self.due_bytes = len(self.publish) + 2 + PAYLOAD_BYTES + 4
        self.socket = socket.create_connection((host, port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.ask(b"\x10\x0f" + text(b"MQTT") + b"\x04\x02\x00\x00" + text(b"raw"), 4)
        self.ask(bytes([0x82, 2 + 2 + len(topic) + 1]) + two_bytes(1) + text(topic) + bytes([QOS]), 5)
        self.socket.setblocking(False)
        self.arrived = b""

    def ask(self, packet: bytes, due_bytes: int) -> None:
        self.socket.sendall(packet)
        while due_bytes > 0:
            due_bytes -= len(self.socket.recv(due_bytes))

    async def __aenter__(self) -> Raw:
        self.loop = asyncio.get_running_loop()
        self.loop.add_reader(self.socket.fileno(), self.read)
        self.waiting = self.loop.create_future()
        return self

    async def __aexit__(self, *_raised: object) -> None:
        self.loop.remove_reader(self.socket.fileno())
        self.socket.close()

    def read(self) -> None:
        self.arrived += self.socket.recv(65536)
        if len(self.arrived) >= self.due_bytes:
            self.waiting.set_result(None)

    async def trips(self, count: int) -> None:
        acknowledgement = b""
        for number in range(count):
            self.waiting = self.loop.create_future()
            self.socket.send(acknowledgement + self.publish + two_bytes(number % 60_000 + 1) + payload(number))
            await self.waiting
            arrived, self.arrived = self.arrived, b""
            start = arrived.index(self.publish) + len(self.publish)
            acknowledgement = b"\x40\x02" + arrived[start : start + 2]
            check(number, arrived[start + 2 : start + 2 + PAYLOAD_BYTES])
        self.socket.send(acknowledgement)


LIBRARIES = {"tautwire": Tautwire, "aiomqtt": Aiomqtt, "paho-mqtt": Paho, "raw": Raw}


def text(of: bytes) -> bytes:
    return two_bytes(len(of)) + of


def two_bytes(number: int) -> bytes:
    return number.to_bytes(2, "big")


def check(number: int, found: Any) -> None:
    if found != payload(number):
        sys.exit(f"message {number} is not the one that was due")


async def main(name: str, host: str, port: str) -> None:
    async with LIBRARIES[name](host, int(port)) as library:
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            task, count = line.split()
            start = time.perf_counter()
            await getattr(library, task)(int(count))
            print(time.perf_counter() - start, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
