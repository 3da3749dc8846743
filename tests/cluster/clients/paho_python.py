"""Clients of paho-mqtt, each in a thread of its own. `paho_python.py FILE` reads their roles from a
file, and commands from standard input."""

from __future__ import annotations

import json
import random
import socket
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MessageState
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from said import number_of, payload_of, say

FOR_EVER_S = 0xFFFF_FFFF
CONNECT_WAIT_S = 5.0
KEEP_ALIVE_S = 3
AGAIN_S = 0.2
TURN_S = 0.02


class Mqtt(mqtt.Client):
    """At its second consecutive attempt to connect, paho 2.2 forgets a received PUBREC: it sends
    PUBLISH again instead of PUBREL, which is another message for every broker [MQTT-4.3.3-6]. This
    class fixes that.
    """

    def _messages_reconnect_reset_out(self) -> None:
        for message in self._out_messages.values():
            if message.state == MessageState.MQTT_MS_RESEND_PUBREL:
                message.state = MessageState.MQTT_MS_WAIT_FOR_PUBCOMP
        super()._messages_reconnect_reset_out()


class Client(threading.Thread):
    """One Client Identifier, as a publisher, a subscriber, or both."""

    def __init__(self, spec: dict, brokers: list[dict], rng: random.Random) -> None:
        super().__init__(daemon=True)
        self.who, self._brokers, self._at, self._rng = spec["who"], brokers, spec["home"], rng
        self._topics: list[list] = spec.get("topics", [])
        self._filter, self._qos = spec.get("filter"), spec.get("qos", 0)
        self._window, self._every_s = spec.get("window", 1), 1 / spec.get("rate", 1)
        self._is_v5 = spec["version"] == 5
        self.is_loaded, self.moves, self.fences = True, False, False
        self._link, self._is_in, self._is_subscribed = 0, False, False
        # Why the last connection ended: according to paho, or DISCONNECT.
        self._reason: str | None = None
        self._sent = {topic: 0 for topic, _ in self._topics}
        # By message identifier.
        self._under_way: dict[int, tuple[str, int]] = {}
        self._due_at = 0.0
        self._client = self._new_client()

    def _new_client(self) -> mqtt.Client:
        version = mqtt.MQTTv5 if self._is_v5 else mqtt.MQTTv311
        more = {} if self._is_v5 else {"clean_session": False}
        client = Mqtt(CallbackAPIVersion.VERSION2, client_id=self.who, protocol=version, reconnect_on_failure=False, **more)
        client.connect_timeout = 2.0
        client.on_connect, client.on_message = self._on_connect, self._on_message
        client.on_disconnect = self._on_disconnect
        client.on_publish, client.on_subscribe = self._on_publish, self._on_subscribe
        return client

    def run(self) -> None:
        while True:
            self._serve(self._brokers[self._at % len(self._brokers)])
            say(self.who, "closed", link=self._link, reason=self._reason)
            self._reason = None
            self._is_in = False
            self._at += 1
            time.sleep(AGAIN_S * self._rng.uniform(0.5, 1.5))

    def _serve(self, broker: dict) -> None:
        """Serves one connection until it ends."""
        self._link += 1
        say(self.who, "connect", link=self._link, to=broker["name"], version=5 if self._is_v5 else 4)
        properties = {}
        if self._is_v5:
            lasting = Properties(PacketTypes.CONNECT)
            lasting.SessionExpiryInterval = FOR_EVER_S
            properties = {"clean_start": False, "properties": lasting}
        try:
            self._client.connect(broker["host"], broker["port"], KEEP_ALIVE_S, **properties)
        except OSError:
            return
        began = time.monotonic()
        while self._client.loop(TURN_S) == mqtt.MQTT_ERR_SUCCESS:
            if self.moves or (not self._is_in and time.monotonic() - began > CONNECT_WAIT_S):
                self.moves = False
                self._cut()
            elif self._is_in:
                self._publish_on()

    def _cut(self) -> None:
        if used := self._client.socket():
            with suppress(OSError):
                used.shutdown(socket.SHUT_RDWR)

    def _publish_on(self) -> None:
        if self.fences:
            self.fences = False
            for topic, qos in self._topics:
                self._publish(topic, qos)
        if self._topics and self.is_loaded and len(self._under_way) < self._window and time.monotonic() >= self._due_at:
            self._due_at = time.monotonic() + self._every_s
            self._publish(*self._rng.choice(self._topics))

    def _publish(self, topic: str, qos: int) -> None:
        self._sent[topic] += 1
        number = self._sent[topic]
        # The connection is unknown: paho resends by itself, on other connections.
        say(self.who, "publish", topic=topic, number=number, qos=qos, link=None)
        info = self._client.publish(topic, payload_of(topic, number), qos)
        self._under_way[info.mid] = (topic, number)

    def _on_connect(self, _client, _userdata, flags, reason, _properties) -> None:
        if reason.is_failure:
            say(self.who, "refused", link=self._link, reason=reason.value)
            return
        self._is_in = True
        say(self.who, "connected", link=self._link, present=flags.session_present)
        self._is_subscribed &= flags.session_present
        if self._filter and not self._is_subscribed:
            say(self.who, "subscribe", filter=self._filter, qos=self._qos)
            self._client.subscribe(self._filter, self._qos)

    def _on_disconnect(self, _client, _userdata, flags, reason, _properties) -> None:
        self._reason = f"{reason}{' from the broker' if flags.is_disconnect_packet_from_server else ''}"

    def _on_subscribe(self, _client, _userdata, _mid, reasons, _properties) -> None:
        self._is_subscribed = True
        say(self.who, "subscribed", filter=self._filter, reason=reasons[0].value)

    def _on_publish(self, _client, _userdata, mid, reason, _properties) -> None:
        topic, number = self._under_way.pop(mid)
        say(self.who, "acknowledged", topic=topic, number=number, link=None, reason=reason.value)

    def _on_message(self, _client, _userdata, message) -> None:
        number = number_of(message.topic, message.payload)
        say(self.who, "message", topic=message.topic, number=number, qos=message.qos)


def main() -> None:
    config = json.loads(Path(sys.argv[1]).read_text())
    rng = random.Random(config["seed"])
    clients = [Client(each, config["brokers"], random.Random(rng.getrandbits(32))) for each in config["clients"]]
    for client in clients:
        client.start()
    for line in sys.stdin:
        for client in clients:
            match line.strip():
                case "quiet":
                    client.is_loaded = False
                case "move":
                    client.moves = True
                case "fence":
                    client.fences = True


if __name__ == "__main__":
    main()
