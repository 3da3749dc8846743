"""A paho-mqtt client with awaited steps: connect, subscribe, publish, receive, disconnect."""

from __future__ import annotations

import os
import queue
import socket
import threading
from dataclasses import dataclass
from typing import Any

import paho.mqtt.client as mqtt
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from kit.driver import Context, Failure, expect

V3 = MQTTProtocolVersion.MQTTv311
V5 = MQTTProtocolVersion.MQTTv5


@dataclass
class Connack:
    session_present: bool
    properties: Properties | None


@dataclass
class Will:
    topic: str
    payload: bytes
    qos: int = 1
    retain: bool = False
    properties: dict[str, Any] | None = None


class Peer:
    """One connection. Received messages are queued until `receive` takes them."""

    def __init__(
        self,
        context: Context,
        version: MQTTProtocolVersion,
        client_id: str = "",
        *,
        clean: bool = True,
        keep_alive_s: int = 60,
        manual_ack: bool = False,
        will: Will | None = None,
        properties: dict[str, Any] | None = None,
        network_loop: bool = True,
    ) -> None:
        self.context = context
        self.version = version
        self._messages: queue.Queue[mqtt.MQTTMessage] = queue.Queue()
        self._connacks: queue.Queue[tuple[ReasonCode, Connack]] = queue.Queue()
        self._answers: dict[int, list[ReasonCode]] = {}
        self._answered = threading.Condition()
        self._closed: queue.Queue[ReasonCode] = queue.Queue()
        self._publish_reasons: dict[int, ReasonCode] = {}

        self.client = mqtt.Client(
            CallbackAPIVersion.VERSION2,
            client_id=client_id,
            clean_session=clean if version != V5 else None,
            protocol=version,
            reconnect_on_failure=False,
            manual_ack=manual_ack,
        )
        if "TAUTWIRE_TLS_CA" in os.environ:
            ca, certificate, key = (os.environ.get(f"TAUTWIRE_TLS_{name}") for name in ("CA", "CERT", "KEY"))
            self.client.tls_set(ca_certs=ca, certfile=certificate, keyfile=key)
        self.client.on_connect = self._on_connect
        self.client.on_message = lambda _client, _data, message: self._messages.put(message)
        self.client.on_subscribe = self._on_suback
        self.client.on_unsubscribe = self._on_unsuback
        self.client.on_publish = self._on_publish
        self.client.on_disconnect = lambda _c, _d, _flags, reason, _p: self._closed.put(reason)
        if will is not None:
            will_properties = _properties(PacketTypes.WILLMESSAGE, will.properties) if version == V5 else None
            self.client.will_set(will.topic, will.payload, will.qos, will.retain, will_properties)

        connect: dict[str, Any] = {}
        if version == V5:
            connect["clean_start"] = clean
            connect["properties"] = _properties(PacketTypes.CONNECT, properties)
        self.client.connect(context.host, context.port, keepalive=keep_alive_s, **connect)
        context.cleanup.callback(self.close)
        if network_loop:
            self.client.loop_start()
            self._expect_connack()
        else:
            while self._connacks.empty():
                context.remaining_s()
                self.client.loop(0.1)
            self._expect_connack()

    def subscribe(self, topic_filter: str, qos: int = 0, *, options: SubscribeOptions | None = None,
                  identifier: int | None = None) -> int:
        """Subscribes and returns the SUBACK's reason code."""
        return self.subscribe_many([(topic_filter, qos)], options=options, identifier=identifier)[0]

    def subscribe_many(self, requests: list[tuple[str, int]], *, options: SubscribeOptions | None = None,
                       identifier: int | None = None) -> list[int]:
        if self.version == V5:
            given = {} if identifier is None else {"SubscriptionIdentifier": identifier}
            v5_requests = [(topic_filter, options or SubscribeOptions(qos=qos)) for topic_filter, qos in requests]
            result, mid = self.client.subscribe(v5_requests, properties=_properties(PacketTypes.SUBSCRIBE, given))
        else:
            result, mid = self.client.subscribe(requests)
        expect(result == mqtt.MQTT_ERR_SUCCESS, f"subscribe: {mqtt.error_string(result)}")
        codes = self._answer_to(mid, "SUBACK")
        expect(all(code <= 2 for code in codes), f"subscription refused: {codes}")
        return codes

    def unsubscribe(self, *topic_filters: str) -> list[int]:
        """Unsubscribes and returns the UNSUBACK's reason codes (none in 3.1.1)."""
        _, mid = self.client.unsubscribe(list(topic_filters))
        return self._answer_to(mid, "UNSUBACK")

    def publish(self, topic: str, payload: bytes | str, qos: int = 0, *, retain: bool = False,
                properties: dict[str, Any] | None = None) -> int:
        """Publishes, waits until the exchange of its QoS is over, and returns the broker's reason code."""
        return self.publish_all([(topic, payload)], qos, retain=retain, properties=properties)[0]

    def publish_all(self, messages: list[tuple[str, bytes | str]], qos: int = 0, *, retain: bool = False,
                    properties: dict[str, Any] | None = None) -> list[int]:
        packet_properties = _properties(PacketTypes.PUBLISH, properties) if self.version == V5 else None
        infos = [
            self.client.publish(topic, payload, qos, retain, packet_properties) for topic, payload in messages
        ]
        for info in infos:
            info.wait_for_publish(self.context.remaining_s())
            expect(info.is_published(), f"QoS {qos} publish was not acknowledged")
        # `wait_for_publish` may return just before the callback with the reason code.
        with self._answered:
            self._answered.wait_for(
                lambda: all(info.mid in self._publish_reasons for info in infos), self.context.remaining_s()
            )
            return [self._publish_reasons[info.mid].value for info in infos]

    def receive(self) -> mqtt.MQTTMessage:
        try:
            return self._messages.get(timeout=self.context.remaining_s())
        except queue.Empty:
            raise Failure("a message did not arrive") from None

    def receive_many(self, count: int) -> list[mqtt.MQTTMessage]:
        messages: list[mqtt.MQTTMessage] = []
        for _ in range(count):
            try:
                messages.append(self.receive())
            except Failure as failure:
                raise Failure(f"{failure}: {len(messages)} of {count} so far") from None
        return messages

    def receive_until(self, payload: bytes) -> list[mqtt.MQTTMessage]:
        """Everything that arrives before the message with this payload: the fence, which is not returned."""
        messages: list[mqtt.MQTTMessage] = []
        while (message := self.receive()).payload != payload:
            messages.append(message)
        return messages

    def acknowledge(self, message: mqtt.MQTTMessage) -> None:
        """Acknowledges by hand (only with `manual_ack`)."""
        self.client.ack(message.mid, message.qos)

    def disconnect(self, properties: dict[str, Any] | None = None, *, reason: int = 0) -> None:
        """Leaves with a DISCONNECT packet; properties and a reason code other than 0 exist in 5.0 only."""
        v5: dict[str, Any] = {}
        if self.version == V5:
            v5["reasoncode"] = ReasonCode(PacketTypes.DISCONNECT, identifier=reason)
            v5["properties"] = _properties(PacketTypes.DISCONNECT, properties)
        self.client.disconnect(**v5)
        self.client.loop_stop()

    def cut(self) -> None:
        """Closes the TCP connection without DISCONNECT, like a crash."""
        connection = self.client.socket()
        if connection is not None:
            connection.shutdown(socket.SHUT_RDWR)
        self.wait_closed()
        self.client.loop_stop()

    def wait_closed(self) -> int:
        """Waits for the end of the connection and returns its reason code."""
        try:
            return self._closed.get(timeout=self.context.remaining_s()).value
        except queue.Empty:
            raise Failure("the connection was not closed") from None

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()

    def _expect_connack(self) -> None:
        try:
            reason, self.connack = self._connacks.get(timeout=self.context.remaining_s())
        except queue.Empty:
            raise Failure("no CONNACK") from None
        expect(not reason.is_failure, f"CONNECT refused: {reason}")

    def _answer_to(self, mid: int, name: str) -> list[int]:
        with self._answered:
            expect(
                self._answered.wait_for(lambda: mid in self._answers, self.context.remaining_s()), f"no {name}"
            )
            return [code.value for code in self._answers.pop(mid)]

    def _on_connect(self, _client: Any, _data: Any, flags: Any, reason: ReasonCode, properties: Any) -> None:
        self._connacks.put((reason, Connack(bool(flags.session_present), properties)))

    def _on_suback(self, _client: Any, _data: Any, mid: int, reasons: Any, _properties: Any) -> None:
        with self._answered:
            self._answers[mid] = list(reasons)
            self._answered.notify_all()

    def _on_unsuback(self, _client: Any, _data: Any, mid: int, reasons: Any, _properties: Any) -> None:
        with self._answered:
            self._answers[mid] = list(reasons)
            self._answered.notify_all()

    def _on_publish(self, _client: Any, _data: Any, mid: int, reason: ReasonCode, _properties: Any) -> None:
        with self._answered:
            self._publish_reasons[mid] = reason
            self._answered.notify_all()


def payloads(messages: list[mqtt.MQTTMessage]) -> list[str]:
    return [message.payload.decode() for message in messages]


def _properties(packet_type: int, values: dict[str, Any] | None) -> Properties | None:
    if not values:
        return None
    properties = Properties(packet_type)
    for name, value in values.items():
        setattr(properties, name, value)
    return properties
