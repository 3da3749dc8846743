"""The cost of messages on disk: memory, a bystander's delay while a wildcard replays them, and a start with a million queued.

    python3 bench/spill/figures.py --binary target/release/tautwire [retained] [queued]
"""

import argparse
import multiprocessing
import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
from pathlib import Path

RETAINED = 1_000_000
RETAINED_PAYLOAD = b"r" * 1024
SESSIONS = 100_000
MESSAGES_EACH = 10
QUEUED_PAYLOAD = b"q" * 256


def text(value: str) -> bytes:
    encoded = value.encode()
    return len(encoded).to_bytes(2, "big") + encoded


def packet(first: int, body: bytes) -> bytes:
    length, rest = b"", len(body)
    while True:
        rest, digit = divmod(rest, 128)
        length += bytes([digit | (0x80 if rest else 0)])
        if not rest:
            return bytes([first]) + length + body


def connect_packet(client_id: str, clean: bool) -> bytes:
    return packet(0x10, text("MQTT") + bytes([4, 2 if clean else 0, 0, 0]) + text(client_id))


def subscribe_packet(topic_filter: str, qos: int) -> bytes:
    return packet(0x82, (1).to_bytes(2, "big") + text(topic_filter) + bytes([qos]))


def publish_packet(topic: str, payload: bytes, packet_id: int | None = None, retain: bool = False) -> bytes:
    identifier = packet_id.to_bytes(2, "big") if packet_id else b""
    return packet(0x30 | (2 if packet_id else 0) | (1 if retain else 0), text(topic) + identifier + payload)


def dial(port: int) -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def read_exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        if not more:
            raise ConnectionError("the broker has closed the connection")
        data += more
    return data


class Broker:
    def __init__(self, binary: str, folder: str, *settings: str):
        command = [binary, "serve", "--listen", "127.0.0.1:0", "--threads", "1", "--set", f"data.path={folder}"]
        for setting in settings:
            command += ["--set", setting]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().rsplit(":", 1)[1])

    def memory_mb(self) -> float:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def settled_memory_mb(self) -> float:
        """Returns the memory when it has not changed for two seconds."""
        last, since = self.memory_mb(), time.monotonic()
        while time.monotonic() - since < 2:
            time.sleep(0.2)
            now = self.memory_mb()
            if abs(now - last) > 1:
                last, since = now, time.monotonic()
        return self.memory_mb()

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()


def stream(port: int, packets, window: int) -> None:
    """Sends QoS 1 packets with a window of unacknowledged ones; with a window of 0, QoS 0 packets and a ping."""
    connection = dial(port)
    connection.sendall(connect_packet("publisher", True))
    read_exactly(connection, 4)
    acknowledged, sent = 0, 0
    buffer = bytearray()
    for one in packets:
        buffer += one
        sent += 1
        if len(buffer) >= 1 << 16:
            connection.sendall(buffer)
            buffer.clear()
            while window and sent - acknowledged > window:
                acknowledged += len(connection.recv(1 << 16)) / 4
    connection.sendall(bytes(buffer) + bytes([0xC0, 0]))
    left = (sent * 4 - acknowledged * 4 if window else 0) + 2
    while left > 0:
        left -= len(connection.recv(1 << 16))
    connection.close()


def retained_topic(number: int) -> str:
    return f"r/{number // 1000}/{number % 1000}"


def read_all(port: int, total: int, results) -> None:
    connection = dial(port)
    connection.sendall(connect_packet("reader", True) + subscribe_packet("r/#", 0))
    read_exactly(connection, 4 + 5)
    began, received = time.monotonic(), 0
    while received < total:
        received += len(connection.recv(1 << 20))
    results.put(time.monotonic() - began)


def delays_ms(port: int, stop: threading.Event) -> list[float]:
    connection = dial(port)
    connection.sendall(connect_packet("bystander", True) + subscribe_packet("by/stander", 0))
    read_exactly(connection, 4 + 5)
    message, delays = publish_packet("by/stander", b"x" * 16), []
    while not stop.is_set():
        began = time.monotonic()
        connection.sendall(message)
        read_exactly(connection, len(message))
        delays.append((time.monotonic() - began) * 1000)
        time.sleep(0.002)
    return sorted(delays)


def retained(binary: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(binary, folder, "limits.retained_bytes=8000000000", "sys.interval_s=0")
        print(f"empty: {broker.memory_mb():.0f} MB")
        began = time.monotonic()
        stream(broker.port, (publish_packet(retained_topic(n), RETAINED_PAYLOAD, retain=True) for n in range(RETAINED)), 0)
        print(f"{RETAINED} retained in {time.monotonic() - began:.1f} s: {broker.memory_mb():.0f} MB at once, ", end="")
        print(f"{broker.settled_memory_mb():.0f} MB settled")
        total = sum(len(publish_packet(retained_topic(n), RETAINED_PAYLOAD, retain=True)) for n in range(RETAINED))
        stop, found = threading.Event(), []
        bystander = threading.Thread(target=lambda: found.extend(delays_ms(broker.port, stop)))
        results = multiprocessing.Queue()
        reader = multiprocessing.Process(target=read_all, args=(broker.port, total, results))
        bystander.start()
        reader.start()
        seconds = results.get()
        stop.set()
        bystander.join()
        p99, worst = found[int(len(found) * 0.99)], found[-1]
        print(f"replayed in {seconds:.1f} s, {total / seconds / 1e6:.0f} MB/s; {broker.memory_mb():.0f} MB")
        print(f"bystander: p50 {found[len(found) // 2]:.2f} ms, p99 {p99:.2f} ms, worst {worst:.2f} ms of {len(found)}")
        stream(broker.port, (publish_packet(retained_topic(n), b"", retain=True) for n in range(RETAINED)), 0)
        print(f"cleared: {broker.settled_memory_mb():.0f} MB")
        broker.kill()


def queued(binary: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        broker = Broker(binary, folder, "sys.interval_s=0")
        connections = []
        for number in range(SESSIONS):
            connection = dial(broker.port)
            connection.sendall(connect_packet(f"c{number}", False) + subscribe_packet(f"q/{number}", 1))
            connections.append(connection)
            if len(connections) == 100:
                for each in connections:
                    read_exactly(each, 4 + 5)
                    each.close()
                connections.clear()
        numbers = ((session, each) for each in range(MESSAGES_EACH) for session in range(SESSIONS))
        messages = (
            publish_packet(f"q/{session}", QUEUED_PAYLOAD, packet_id=at % 60_000 + 1)
            for at, (session, _) in enumerate(numbers)
        )
        stream(broker.port, messages, 1000)
        print(f"{SESSIONS * MESSAGES_EACH} queued for {SESSIONS}: {broker.settled_memory_mb():.0f} MB")
        broker.kill()
        began = time.monotonic()
        broker = Broker(binary, folder, "sys.interval_s=0")
        listening = time.monotonic() - began
        for number in (0, SESSIONS // 2, SESSIONS - 1):
            connection = dial(broker.port)
            connection.sendall(connect_packet(f"c{number}", False))
            length = len(publish_packet(f"q/{number}", QUEUED_PAYLOAD, packet_id=1))
            read_exactly(connection, 4 + MESSAGES_EACH * length)
        print(f"started again: listening after {listening:.1f} s, served after {time.monotonic() - began:.1f} s, ", end="")
        print(f"{broker.memory_mb():.0f} MB")
        broker.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default="target/release/tautwire")
    parser.add_argument("figures", nargs="*", default=["retained", "queued"])
    arguments = parser.parse_args()
    binary = os.path.abspath(arguments.binary)
    for figure in arguments.figures:
        {"retained": retained, "queued": queued}[figure](binary)


if __name__ == "__main__":
    main()
