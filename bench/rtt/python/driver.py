"""A driver on paho-mqtt: `[--nagle] echo HOST PORT QOS NAME`, or `ping` or `self` with a DIGIT. See README.md."""

import socket
import sys
from time import perf_counter_ns

import paho.mqtt.client as mqtt

PAYLOAD_BYTES = 16
TIMEOUT_S = 10


def main() -> None:
    arguments = sys.argv[1:]
    nagle = arguments[0] == "--nagle"
    task, host, port, qos, name = arguments[nagle:]
    session = Session(host, int(port), int(qos), nodelay=not nagle)
    if task == "echo":
        session.subscribe(f"rtt/{qos}/there/{name}")
        echo(session)
    else:
        own_topic = f"rtt/{qos}/back/{name}"
        session.subscribe(own_topic)
        ping(session, name, own_topic if task == "self" else None)


class Session:
    """Runs without the library's thread: packets are handled by the thread that waits."""

    def __init__(self, host: str, port: int, qos: int, nodelay: bool) -> None:
        self.qos = qos
        self.client = mqtt.Client(mqtt.CallbackAPIVersion.VERSION2, protocol=mqtt.MQTTv311)
        if nodelay:
            self.client.on_socket_open = lambda _client, _user, opened: opened.setsockopt(
                socket.IPPROTO_TCP, socket.TCP_NODELAY, 1
            )
        connected: list[bool] = []
        self.client.on_connect = lambda _client, _user, _flags, reason, _properties: connected.append(not reason.is_failure)
        self.client.connect(host, port, keepalive=0)
        while not connected:
            self.step()

    def subscribe(self, topic_filter: str) -> None:
        granted: list[object] = []
        self.client.on_subscribe = lambda *_arguments: granted.append(None)
        self.client.subscribe(topic_filter, self.qos)
        while not granted:
            self.step()

    def publish(self, topic: str, payload: bytes) -> None:
        self.client.publish(topic, payload, self.qos)

    def step(self) -> None:
        if self.client.loop(TIMEOUT_S) != mqtt.MQTT_ERR_SUCCESS:
            sys.exit("the connection is over")


def echo(session: Session) -> None:
    back = {ord(digit): f"rtt/{session.qos}/back/{digit}" for digit in "0123456789abcdef"}

    def on_message(_client: mqtt.Client, _user: object, message: mqtt.MQTTMessage) -> None:
        session.publish(back[message.payload[0]], message.payload)

    session.client.on_message = on_message
    print("ready", flush=True)
    while True:
        session.step()


def ping(session: Session, digit: str, own_topic: str | None) -> None:
    times: list[int] = []
    number = count = sent = end = 0
    topic, payload = "", b""

    def ask() -> None:
        nonlocal number, payload, sent
        number += 1
        payload = f"{digit}{number:0{PAYLOAD_BYTES - 1}}".encode()
        sent = perf_counter_ns()
        session.publish(topic, payload)

    def on_message(_client: mqtt.Client, _user: object, message: mqtt.MQTTMessage) -> None:
        nonlocal count
        now = perf_counter_ns()
        if message.payload != payload:
            sys.exit("not the reply to the last message")
        times.append(now - sent)
        if len(times) < count and now < end:
            ask()
        else:
            count = len(times)

    session.client.on_message = on_message
    print("ready", flush=True)
    for line in sys.stdin:
        server, count_text, limit_ms = line.split()
        topic = own_topic or f"rtt/{session.qos}/there/{server}"
        times.clear()
        count = int(count_text)
        end = perf_counter_ns() + int(limit_ms) * 1_000_000
        ask()
        while len(times) < count:
            session.step()
        print(*times, flush=True)


main()
